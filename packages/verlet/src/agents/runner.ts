import { randomUUID } from 'node:crypto';
import { mapConcurrently } from '../protocol/map-concurrently.js';
import type { Engine } from '../rollout/types.js';
import { TemplateCache } from './chat-template.js';
import { messageOf, timerMilliseconds, withDeadline } from './deadline.js';
import type { Interaction } from './interactions/types.js';
import { type AgentLoop, agentLoop } from './loops/index.js';
import { agentMetrics, type Metrics } from './metrics.js';
import { applyReward, type RewardFunction } from './rewards.js';
import { Session, TrajectoryEnded } from './session.js';
import type { Tool } from './tools/types.js';
import {
  type AgentConfig,
  type AgentConfigInput,
  type AgentRow,
  type ChatTokenizer,
  type EndReason,
  resolveAgentConfig,
  type Trajectory,
} from './types.js';

export interface RunAgentsOptions {
  engine: Engine;
  tokenizer: ChatTokenizer;
  config?: AgentConfigInput;
  tools?: readonly Tool[];
  interactions?: readonly Interaction[];
  /** Called as soon as a trajectory is over, while others still generate. */
  reward?: RewardFunction;
  onTrajectory?: (trajectory: Trajectory, row: AgentRow) => void;
  /** Ends all trajectories with `abort`. */
  signal?: AbortSignal;
}

export interface AgentBatch {
  /** In the order of the rows. */
  trajectories: Trajectory[];
  metrics: Metrics;
}

/** How long a loop that was told to end may take to return before it is left behind. */
const GRACE_SECONDS = 2;

/** Runs every row through its loop, all at the same time on the one engine. A failing row never fails the batch. */
export async function runAgents(rows: readonly AgentRow[], options: RunAgentsOptions): Promise<AgentBatch> {
  const config = resolveAgentConfig(options.config);
  // Names are looked up before anything runs: a typo in the data is an error of the whole call, not of one trajectory.
  const loops = rows.map((row) => agentLoop(row.agent_name ?? config.defaultAgentLoop));
  const templateCache = new TemplateCache();
  const trajectories = await mapConcurrently(rows, config.maxConcurrentTrajectories, async (given, rowIndex) => {
    const row = withRowKwargs(given);
    const trajectory = await runTrajectory(row, rowIndex, loops[rowIndex]!, config, templateCache, options);
    await scoreTrajectory(trajectory, row, config, options);
    options.onTrajectory?.(trajectory, row);
    return trajectory;
  });
  return { trajectories, metrics: agentMetrics(trajectories) };
}

async function runTrajectory(
  row: AgentRow,
  rowIndex: number,
  loop: AgentLoop,
  config: AgentConfig,
  templateCache: TemplateCache,
  { engine, tokenizer, tools = [], interactions = [], signal }: RunAgentsOptions,
): Promise<Trajectory> {
  const clock = trajectoryClock(config.trajectoryTimeoutSeconds, signal);
  const session = new Session({
    engine,
    tokenizer,
    config,
    row,
    rowIndex,
    id: randomUUID(),
    agentName: row.agent_name ?? config.defaultAgentLoop,
    tools: selectTools(tools, row),
    interactions,
    templateCache,
    signal: clock.signal,
  });
  let error: string | undefined;
  try {
    await Promise.race([loop(session), clock.leftBehind]);
    session.finish('stop');
  } catch (thrown) {
    if (thrown instanceof TrajectoryEnded) session.finish(thrown.reason);
    else {
      error = messageOf(thrown);
      session.finish('error');
    }
  } finally {
    clock.stop();
  }
  await closeTools(session);
  if (session.endReason !== 'error') session.checkTokenization();
  return session.recorder.build(
    session.messages,
    session.endReason ?? 'stop',
    session.endReason === 'error' ? error : undefined,
  );
}

/** Fires the session's signal when time is up, and rejects a little later for loops that do not listen. */
function trajectoryClock(seconds: number, outer?: AbortSignal) {
  const controller = new AbortController();
  let reject: (error: unknown) => void = () => {};
  const leftBehind = new Promise<never>((_, fail) => {
    reject = fail;
  });
  leftBehind.catch(() => {});
  let grace: NodeJS.Timeout | undefined;
  const end = (reason: EndReason) => {
    if (controller.signal.aborted) return;
    const ended = new TrajectoryEnded(reason);
    controller.abort(ended);
    grace = setTimeout(() => reject(ended), GRACE_SECONDS * 1000);
  };
  const timer = setTimeout(() => end('timeout'), timerMilliseconds(seconds));
  const onOuterAbort = () => end('abort');
  if (outer?.aborted) onOuterAbort();
  else outer?.addEventListener('abort', onOuterAbort, { once: true });
  return {
    signal: controller.signal,
    leftBehind,
    stop() {
      clearTimeout(timer);
      clearTimeout(grace);
      outer?.removeEventListener('abort', onOuterAbort);
    },
  };
}

async function closeTools(session: Session): Promise<void> {
  const onError = (tool: string, message: string) => {
    session.recorder.extraFields[`tool_error/${tool}`] = message;
    session.recorder.metrics.tool_close_errors = (session.recorder.metrics.tool_close_errors ?? 0) + 1;
  };
  const rewards = await session.toolbox.finalRewards(onError);
  for (const [tool, value] of Object.entries(rewards)) session.rewardTurn(`tool/${tool}`, value);
  await session.toolbox.release(onError);
}

export async function scoreTrajectory(
  trajectory: Trajectory,
  row: AgentRow,
  config: AgentConfig,
  { reward, signal }: Pick<RunAgentsOptions, 'reward' | 'signal'>,
): Promise<void> {
  if (!reward) return;
  const started = performance.now();
  try {
    const value = await withDeadline(
      'the reward function',
      config.rewardTimeoutSeconds,
      (deadline) => reward(trajectory, row, deadline),
      signal,
    );
    applyReward(trajectory, value);
  } catch (error) {
    trajectory.rewardError = messageOf(error);
  }
  trajectory.timing.compute_score += (performance.now() - started) / 1000;
}

/** verl's datasets keep the arguments of tools and interactions inside `extra_info`. */
function withRowKwargs(row: AgentRow): AgentRow {
  const { tools_kwargs, interaction_kwargs } = (row.extra_info ?? {}) as Pick<
    AgentRow,
    'tools_kwargs' | 'interaction_kwargs'
  >;
  return {
    ...row,
    ...(row.tools_kwargs === undefined && tools_kwargs ? { tools_kwargs } : {}),
    ...(row.interaction_kwargs === undefined && interaction_kwargs ? { interaction_kwargs } : {}),
  };
}

/** A row may narrow the tools down with `extra_info.tool_selection`. */
function selectTools(tools: readonly Tool[], row: AgentRow): readonly Tool[] {
  const selection = row.extra_info?.tool_selection;
  return Array.isArray(selection) ? tools.filter(({ name }) => selection.includes(name)) : tools;
}
