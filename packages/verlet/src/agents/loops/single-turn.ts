import type { AgentLoop } from './registry.js';

/** One prompt, one answer. */
export const singleTurnAgent: AgentLoop = async (session) => {
  await session.generate();
};
