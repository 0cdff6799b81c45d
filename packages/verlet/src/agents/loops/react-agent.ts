import type { Session } from '../session.js';
import { isRecord, valueOfJson } from '../tools/parsers/calls.js';
import type { ToolSchema } from '../types.js';
import type { AgentLoop } from './registry.js';

const OBSERVATION = 'Observation:';

/**
 * Reason, act, observe, in plain text: works with models whose template knows no tools. The model writes
 * `Action:` and `Action Input:`, is stopped before it makes up an observation, and ends with `Final Answer:`.
 */
export const reactAgent: AgentLoop = async (session) => {
  describeTools(session);
  for (;;) {
    const { text, finishReason, stopReason } = await session.generate({ stop: [OBSERVATION] });
    const step = readStep(text);
    if (step.kind === 'answer') {
      session.recorder.extraFields.final_answer = step.answer;
      session.finish('answer');
      return;
    }
    if (step.kind === 'none' && (finishReason === 'length' || stopReason !== OBSERVATION)) return;
    const observation =
      step.kind === 'action'
        ? (await session.callTool({ name: step.tool, arguments: step.input })).response
        : session.refuseCall('malformed', step.kind === 'malformed' ? step.reason : 'no "Action:" line was written')
            .response;
    session.appendText(`${stopReason === OBSERVATION ? '' : `\n${OBSERVATION}`} ${observation}\nThought:`);
  }
};

export type ReactStep =
  | { kind: 'action'; tool: string; input: Record<string, unknown> }
  | { kind: 'answer'; answer: string }
  | { kind: 'malformed'; reason: string }
  | { kind: 'none' };

/** The first thing the model does in its text: what it writes after an action is not a second step. */
export function readStep(text: string): ReactStep {
  const answer = /^\s*Final Answer:\s*([\s\S]*)$/m.exec(text);
  const action = /^\s*Action:[ \t]*(\S[^\n]*)\n\s*Action Input:[ \t]*([\s\S]*?)(?=\n\s*Observation:|$)/m.exec(text);
  if (answer && (!action || answer.index < action.index)) return { kind: 'answer', answer: answer[1]!.trim() };
  if (!action) {
    return /^\s*Action:/m.test(text)
      ? { kind: 'malformed', reason: '"Action:" needs an "Action Input:" line' }
      : { kind: 'none' };
  }
  const body = action[2]!.replace(/Observation:\s*$/, '').trim();
  const input = body === '' ? {} : valueOfJson(body);
  if (!isRecord(input)) return { kind: 'malformed', reason: '"Action Input:" must be a JSON object' };
  return { kind: 'action', tool: action[1]!.trim(), input };
}

function describeTools(session: Session): void {
  const instructions = reactInstructions(session.toolSchemas);
  session.toolSchemas = [];
  const first = session.messages[0];
  if (first?.role === 'system') first.content = `${first.content}\n\n${instructions}`;
  else session.messages.unshift({ role: 'system', content: instructions });
}

export function reactInstructions(tools: readonly ToolSchema[]): string {
  const list = tools.map(({ function: { name, description, parameters } }) => {
    return `- ${name}: ${description ?? ''} Input: ${JSON.stringify(parameters ?? {})}`;
  });
  return [
    'Work in steps. You have these tools:',
    ...list,
    'Write each step as:',
    'Thought: what to do next',
    'Action: the name of a tool',
    'Action Input: its input as a JSON object',
    'You are then given an Observation. When you know the answer, write:',
    'Final Answer: the answer',
  ].join('\n');
}
