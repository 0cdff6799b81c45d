import type { Session } from '../session.js';

/**
 * How an agent lives through one trajectory: a plain async function over a session. When it returns, the trajectory is
 * over (`stop` unless it called `finish` with another reason); when it throws, the trajectory ends with `error`.
 *
 * @example
 * registerAgentLoop('guess_again', async (session) => {
 *   for (let turn = await session.generate(); !turn.text.includes('42'); turn = await session.generate()) {
 *     session.append([{ role: 'user', content: 'No. Guess again.' }]);
 *   }
 *   session.reward('score', 1);
 * });
 */
export type AgentLoop = (session: Session) => Promise<void>;

const loops = new Map<string, AgentLoop>();

export function registerAgentLoop(name: string, loop: AgentLoop): void {
  if (loops.has(name)) throw new Error(`an agent loop named ${JSON.stringify(name)} is already registered`);
  loops.set(name, loop);
}

export function agentLoop(name: string): AgentLoop {
  const loop = loops.get(name);
  if (!loop) throw new Error(`no agent loop named ${JSON.stringify(name)}; there are: ${agentLoopNames().join(', ')}`);
  return loop;
}

export function agentLoopNames(): string[] {
  return [...loops.keys()];
}
