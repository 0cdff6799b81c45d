import type { AssistantTurn, Session } from '../session.js';
import type { ChatMessage, ToolCallRecord } from '../types.js';
import type { AgentLoop } from './registry.js';

/** Calls tools until the model answers without a call. */
export const toolAgent: AgentLoop = async (session) => {
  for (;;) {
    const turn = await session.generate();
    if (turn.toolCalls.length === 0 && turn.malformed.length === 0) return;
    session.append(await toolMessages(session, turn));
  }
};

/** Runs the calls of a turn (as many as are allowed, at the same time) and answers every one, read or not. */
export async function toolMessages(session: Session, turn: AssistantTurn): Promise<ChatMessage[]> {
  session.assertMayContinue();
  const { maxParallelCalls } = session.config;
  const run = await Promise.all(turn.toolCalls.slice(0, maxParallelCalls).map((call) => session.callTool(call)));
  const ignored = turn.toolCalls
    .slice(maxParallelCalls)
    .map((call) =>
      session.refuseCall(
        'ignored',
        `${call.name} was not run: at most ${maxParallelCalls} per turn`,
        call.name,
        call.arguments,
      ),
    );
  const malformed = turn.malformed.map(({ reason }) =>
    session.refuseCall('malformed', `could not read the tool call: ${reason}`),
  );
  return [...run, ...ignored, ...malformed].map(toolMessage);
}

function toolMessage(record: ToolCallRecord): ChatMessage {
  return {
    role: 'tool',
    content: record.response,
    tool_call_id: record.id,
    ...(record.name ? { name: record.name } : {}),
  };
}
