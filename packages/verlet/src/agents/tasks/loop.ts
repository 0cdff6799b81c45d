import { messageOf, withDeadline } from '../deadline.js';
import type { AgentLoop } from '../loops/registry.js';
import { toolMessages } from '../loops/tool-agent.js';
import type { Session } from '../session.js';
import { taskType } from './registry.js';
import type { Task } from './types.js';

/** Runs the task that the row names in `task_type` (a column or a key of `extra_info`). */
export const taskAgent: AgentLoop = async (session) => {
  const name = session.row.task_type ?? session.row.extra_info?.task_type;
  if (typeof name !== 'string') throw new Error('task_agent needs task_type in the row or in its extra_info');
  await runTask(session, taskType(name));
};

/** start, then generate and observe until one side is done, then end. Metrics are grouped under the task's name. */
export async function runTask(session: Session, task: Task): Promise<void> {
  const seconds = session.config.toolTimeoutSeconds;
  const ask = <T>(hook: string, work: (signal: AbortSignal) => Promise<T> | T) =>
    withDeadline(`${hook} of task ${task.name}`, seconds, work, session.signal);

  const { state, messages } = await ask('start', (signal) => task.start(session.row, signal));
  if (messages) session.messages.splice(0, session.messages.length, ...messages);
  try {
    for (;;) {
      const turn = await session.generate();
      if (session.toolSchemas.length > 0 && turn.toolCalls.length + turn.malformed.length > 0) {
        session.append(await toolMessages(session, turn));
        continue;
      }
      const observation = await ask('observe', (signal) => task.observe(state, turn, session.messages, signal));
      if (observation.reward !== undefined) session.rewardTurn(`task/${task.name}`, observation.reward);
      report(session, task, observation.metrics);
      if (observation.done || !observation.messages?.length) {
        session.finish(observation.done ? 'environment_done' : 'stop');
        return;
      }
      session.append(observation.messages);
    }
  } finally {
    await endTask(session, task, state, seconds);
  }
}

/** Runs although the trajectory's own time may be up: an environment that is not told of the end leaks. */
async function endTask(session: Session, task: Task, state: unknown, seconds: number): Promise<void> {
  if (!task.end) return;
  try {
    const result = await withDeadline(`end of task ${task.name}`, seconds, (signal) =>
      task.end!(state, session.messages, signal),
    );
    const channels = typeof result.reward === 'number' ? { [task.name]: result.reward } : (result.reward ?? {});
    for (const [channel, value] of Object.entries(channels)) session.reward(channel, value);
    report(session, task, result.metrics);
  } catch (error) {
    session.recorder.extraFields.end_error = messageOf(error);
    report(session, task, { end_errors: 1 });
  }
}

function report(session: Session, task: Task, metrics: Record<string, number> = {}): void {
  for (const [key, value] of Object.entries(metrics)) session.recorder.metrics[`${task.name}/${key}`] = value;
}
