import { z } from 'zod';
import { defineTool } from '../tools/define-tool.js';
import type { AgentLoop } from './registry.js';
import { toolMessages } from './tool-agent.js';

/** A made-up operator, so that the value cannot be recalled and the tool has to be used. */
const OPERATIONS: Record<string, (a: number, b: number) => number> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '@': (a, b) => 3 * a - 2 * b,
};

/** Computes one operation of an expression; `@` is known to the tool alone. */
export const calculateTool = defineTool({
  name: 'calculate',
  description: 'Applies one operation to two integers',
  input: z.object({ a: z.number().int(), b: z.number().int(), operand: z.enum(['+', '-', '*', '@']) }),
  execute: ({ a, b, operand }) => String(OPERATIONS[operand]!(a, b)),
});

/** An example of one's own loop: calls tools like `tool_agent` and scores the number in the last answer itself. */
export const mathExpression: AgentLoop = async (session) => {
  let turn = await session.generate();
  while (turn.toolCalls.length > 0 || turn.malformed.length > 0) {
    session.append(await toolMessages(session, turn));
    turn = await session.generate();
  }
  const answer = turn.content.match(/-?\d+/g)?.at(-1);
  const truth = session.row.reward_model?.ground_truth;
  if (truth !== undefined)
    session.reward('exact_match', answer !== undefined && Number(answer) === Number(truth) ? 1 : 0);
};
