import { messageOf, withDeadline } from '../deadline.js';
import type { AgentLoop } from './registry.js';
import { toolMessages } from './tool-agent.js';

/** Talks with a user that is a program: the model answers, the interaction scores it and replies, until it is content. */
export const interactionAgent: AgentLoop = async (session) => {
  const { name, ...kwargs } = session.row.interaction_kwargs ?? {};
  if (!name) throw new Error('interaction_agent needs interaction_kwargs.name in the row');
  const partner = session.interaction(name);
  const seconds = session.config.toolTimeoutSeconds;
  const ask = <T>(what: string, work: () => Promise<T> | T) =>
    withDeadline(`${what} of interaction ${name}`, seconds, work, session.signal);

  const instance = await ask('start', () => partner.start({ ...kwargs, row: session.row }));
  try {
    for (;;) {
      const turn = await session.generate();
      if (turn.toolCalls.length > 0 || turn.malformed.length > 0) {
        session.append(await toolMessages(session, turn));
        continue;
      }
      const response = await ask('generateResponse', () => partner.generateResponse(instance, session.messages));
      session.rewardTurn(`interaction/${name}`, response.score);
      Object.assign(session.recorder.metrics, response.metrics);
      if (response.terminate) {
        session.finish('interaction_terminated');
        return;
      }
      session.append([{ role: 'user', content: response.text }]);
    }
  } finally {
    // What was recorded stands, whether or not the other side can clean up after itself.
    await withDeadline(`finalize of interaction ${name}`, seconds, () => partner.finalize?.(instance)).catch(
      (error) => {
        session.recorder.extraFields.finalize_error = messageOf(error);
      },
    );
  }
};
