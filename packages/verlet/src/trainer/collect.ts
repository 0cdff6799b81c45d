/** Stations A to H: prompts, samples, scores. With group filtering, batches are added until enough prompts teach something. */
import { tensor } from '@verlet/torch';
import { agentMetrics, PROGRAM_COUNTS, type Trajectory } from '../agents/index.js';
import { filterGroups } from '../algorithms/index.js';
import { type PpoConfig, UserError } from '../config/index.js';
import type { DataLoader, RlItem } from '../data/index.js';
import { DataProto } from '../protocol/index.js';
import { reduceMetrics } from '../workers/metric-list.js';
import { needsSumPiSquared } from './estimate.js';
import type { ActorGroup } from './ppo.js';
import { addNeeded, type RewardLoop } from './reward-loop.js';
import { rolloutRows, selectRollouts } from './rollouts.js';
import { mergeRounds, type Round } from './rounds.js';
import { joinGenerated, promptRows } from './rows.js';
import type { StepTimer } from './step-timer.js';

export interface CollectParts {
  config: PpoConfig;
  actor: ActorGroup;
  loader: DataLoader<RlItem>;
  reward: RewardLoop;
  /** Becomes true when the person (or the system) asks to stop. */
  shouldStop?: () => boolean;
}

/** The run is to end before a step had enough to learn from: it is as if the step had not begun. */
export class StepAbandoned extends Error {
  override readonly name = 'StepAbandoned';
}

/** Rounds that fill nothing may go on for ever; a person should hear of them, but not of every one. */
const isWorthTelling = (round: number): boolean => round >= 8 && Number.isInteger(Math.log2(round));

export interface Collected {
  batch: DataProto;
  metrics: Record<string, number>;
  /** Response tokens of all rollouts, also of those that are not learnt from. */
  responseTokens: number;
}

/** One batch of rollouts with scores. The actor must be awake. */
export async function collect(parts: CollectParts, step: number, timer: StepTimer): Promise<Collected> {
  const { config, loader } = parts;
  const { filter_groups: filter } = config.algorithm;
  if (!filter.enable) return rollout(parts, await loader.next(), step, timer);

  const wanted = config.data.train_batch_size;
  const kept: DataProto[] = [];
  const counters = { dropped: 0, surplus: 0 };
  let prompts = 0;
  const rounds: Round[] = [];
  let responseTokens = 0;
  for (let round = 1; ; round++) {
    const collected = await rollout(parts, await loader.next(), step, timer, round);
    const { batch } = collected;
    rounds.push({ metrics: collected.metrics, rollouts: rolloutRows(batch).length });
    responseTokens += collected.responseTokens;
    const uids = batch.column<string>('uid');
    const values = filterValues(batch, filter.metric);
    // A rollout of several rows has one value: that of the last.
    const deciding = rolloutRows(batch).map((rows) => rows.at(-1)!);
    const chosen = filterGroups({
      groupIds: deciding.map((row) => uids[row]!),
      values: deciding.map((row) => values[row]!),
      low: filter.low,
      high: filter.high,
      maxGroups: wanted - prompts,
    });
    counters.dropped += chosen.droppedRows;
    counters.surplus += chosen.surplusRows;
    prompts += chosen.groupIds.length;
    if (chosen.rows.length > 0) kept.push(selectRollouts(batch, chosen.rows));
    batch.dispose();
    if (prompts >= wanted) break;
    const few = `${prompts} of ${wanted} prompts have answers that differ in '${filter.metric ?? 'seq_final_reward'}'`;
    if (parts.shouldStop?.()) {
      for (const part of kept) part.dispose();
      throw new StepAbandoned(`stopped after ${round} batches, when ${few}`);
    }
    if (isWorthTelling(round))
      console.warn(
        `step ${step}: after ${round} batches only ${few}; sampling goes on (algorithm.filter_groups.max_num_gen_batches ` +
          'would end it). Prompts that are all solved or all failed teach nothing: use others, or look at the reward',
      );
    if (filter.max_num_gen_batches > 0 && round >= filter.max_num_gen_batches) {
      for (const part of kept) part.dispose();
      throw new UserError(
        `after ${round} batches only ${few}; ` +
          'raise algorithm.filter_groups.max_num_gen_batches, use harder or easier prompts, or raise rollout.n',
      );
    }
  }
  for (const part of kept) {
    delete part.metaInfo.metrics;
    part.metaInfo.num_prompts = prompts;
  }
  const batch = kept.length === 1 ? kept[0]! : DataProto.concat(kept);
  if (kept.length > 1) for (const part of kept) part.dispose();
  const metrics = mergeRounds(rounds);
  metrics['training/filter_groups/evicted_samples'] = counters.dropped;
  metrics['training/filter_groups/discarded_surplus_samples'] = counters.surplus;
  metrics['train/num_gen_batches'] = rounds.length;
  return { batch, metrics, responseTokens };
}

async function rollout(
  parts: CollectParts,
  items: readonly RlItem[],
  step: number,
  timer: StepTimer,
  round = 0,
): Promise<Collected> {
  const { config, actor, reward } = parts;
  const prompts = promptRows(items, config, step, { round });
  const metrics: Record<string, number> = {};
  const generated = await timer.time('gen', () => actor.generateSequences(prompts));
  const ofRanks = generated.metaInfo.metrics as Record<string, number[]>;
  Object.assign(metrics, reduceMetrics(ofRanks), programCounts(ofRanks));
  delete generated.metaInfo.metrics;
  const batch = joinGenerated(prompts, generated);
  // Counts of the whole batch, whatever the number of ranks that sampled it.
  const trajectories = batch.column<Trajectory>('trajectory');
  Object.assign(metrics, agentMetrics(trajectories));
  batch.metaInfo.sumPiSquared = needsSumPiSquared(config);
  Object.assign(metrics, await addNeeded(actor, batch, reward.needs, timer));
  const scored = await timer.time('reward', () => reward.score(batch));
  batch.set('token_level_scores', scored.scores);
  Object.assign(metrics, scored.metrics);
  if (config.algorithm.adv_estimator === 'remax') await addGreedyBaselines(parts, batch, items, step, timer, round);
  const responseTokens = trajectories.reduce((sum, { responseIds }) => sum + responseIds.length, 0);
  return { batch, metrics, responseTokens };
}

/** Ranks run programs of their own: how many ran, failed or never asked the policy adds up. */
function programCounts(ofRanks: Readonly<Record<string, readonly number[]>>): Record<string, number> {
  const counted = PROGRAM_COUNTS.filter((name) => name in ofRanks);
  return Object.fromEntries(counted.map((name) => [name, ofRanks[name]!.reduce((sum, value) => sum + value, 0)]));
}

/** ReMax: each prompt's greedy answer, scored, is the baseline of its samples. Of several rows the last one's score counts. */
async function addGreedyBaselines(
  { config, actor, reward }: CollectParts,
  batch: DataProto,
  items: readonly RlItem[],
  step: number,
  timer: StepTimer,
  round: number,
): Promise<void> {
  const prompts = promptRows(items, config, step, { n: 1, greedy: true, round });
  const greedy = joinGenerated(prompts, await timer.time('gen_max', () => actor.generateSequences(prompts)));
  await addNeeded(actor, greedy, reward.needs, timer);
  const { scores } = await reward.score(greedy);
  const totals = scores.sum(-1);
  const baselines = totals.toFloat32Array();
  const byPrompt = new Map(greedy.column<string>('uid').map((uid, k) => [uid, baselines[k]!]));
  batch.set(
    'reward_baselines',
    tensor(Float32Array.from(batch.column<string>('uid'), (uid) => byPrompt.get(uid) ?? 0)),
  );
  totals.dispose();
  scores.dispose();
  greedy.dispose();
}

/** Per row: the sum of its scores, or a number that the reward reported under the metric's name. */
function filterValues(batch: DataProto, metric: string | null): number[] {
  const name = metric ?? 'seq_final_reward';
  if (name === 'seq_final_reward' || name === 'seq_reward' || name === 'score') {
    const totals = batch.tensor('token_level_scores').sum(-1);
    const values = Array.from(totals.toFloat32Array());
    totals.dispose();
    return values;
  }
  return batch.column<Record<string, unknown>>('reward_extra_info').map((extras, row) => {
    const value = extras[name];
    if (typeof value !== 'number' && typeof value !== 'boolean')
      throw new UserError(
        `algorithm.filter_groups.metric is '${name}', but the reward of row ${row} has no such number; it has: ${Object.keys(extras).join(', ') || 'nothing'}`,
      );
    return Number(value);
  });
}
