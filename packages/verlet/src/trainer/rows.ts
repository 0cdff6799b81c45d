/** From dataset items to the rows that are sampled: each prompt with an id of its own, n times, each sample with its own noise. */
import type { AgentRow, Trajectory } from '../agents/index.js';
import { type PpoConfig, UserError } from '../config/index.js';
import type { RlItem, SampleFeedback } from '../data/index.js';
import { DataProto } from '../protocol/index.js';
import type { SamplingParams } from '../rollout/types.js';
import { decidingRows, nameTrajectories } from './rollouts.js';

export function samplingOf(config: PpoConfig, validate: boolean): SamplingParams {
  const { rollout } = config.actor_rollout_ref;
  const source = validate ? rollout.val_kwargs : rollout;
  const greedy = source.do_sample === false;
  return {
    temperature: greedy ? 0 : source.temperature,
    topK: source.top_k,
    topP: source.top_p,
    ...(validate
      ? {}
      : { minP: rollout.min_p, repetitionPenalty: rollout.repetition_penalty, ignoreEos: rollout.ignore_eos }),
  };
}

/** One 53-bit number from several: the key of a prompt's noise. Same inputs, same noise; that is what makes a resumed run repeat. */
export function mixSeed(...parts: readonly number[]): number {
  let low = 0x243f6a88;
  let high = 0x85a308d3;
  for (const part of parts) {
    const value = Math.floor(part) >>> 0;
    low = Math.imul(low ^ value, 0x9e3779b1) ^ (low >>> 15);
    high = Math.imul(high ^ (value + 0x7f4a7c15), 0x85ebca6b) ^ (high >>> 13) ^ low;
  }
  return (low >>> 0) * 2 ** 20 + ((high >>> 0) & 0xfffff);
}

export interface RowOptions {
  validate?: boolean;
  n?: number;
  /** Without noise, whatever the configuration says. */
  greedy?: boolean;
  /** Which of several batches of the same step. */
  round?: number;
}

/** Rows in the order aabb: the n samples of a prompt stand together. */
export function promptRows(
  items: readonly RlItem[],
  config: PpoConfig,
  step: number,
  options: RowOptions = {},
): DataProto {
  const { rollout } = config.actor_rollout_ref;
  const n = options.n ?? (options.validate ? rollout.val_kwargs.n : rollout.n);
  const configured = samplingOf(config, options.validate ?? false);
  const sampling = options.greedy ? { ...configured, temperature: 0 } : configured;
  const round = options.round ?? 0;
  const timesSeen = new Map<number, number>();
  const rows = items.flatMap((item) => {
    // The same prompt may come twice in a step (a new epoch, another round, a mixture that repeats a small dataset): its samples
    // must be neither compared with each other's nor drawn with the same noise.
    const seen = timesSeen.get(item.index) ?? 0;
    timesSeen.set(item.index, seen + 1);
    const again = seen > 0 ? [seen] : [];
    const uid = [step, round, item.index, ...again].join(':');
    const seed = mixSeed(rollout.seed, options.validate ? -1 : step, round, item.index, ...again);
    return Array.from({ length: n }, (_, sampleIndex): AgentRow => {
      const { rawPrompt, promptIds: _ids, index: _index, ...columns } = item;
      return {
        ...columns,
        prompt: rawPrompt,
        uid,
        sampleIndex,
        sampling: { ...sampling, seed },
      } as AgentRow;
    });
  });
  const column = (key: string): unknown[] => rows.map((row) => row[key]);
  return DataProto.fromDict({
    nonTensors: {
      agent_row: rows,
      row_id: rows.map((_, k) => k),
      item_index: items.flatMap(({ index }) => Array.from({ length: n }, () => index)),
      uid: column('uid'),
      data_source: column('data_source'),
      reward_model: column('reward_model'),
      extra_info: column('extra_info'),
    },
    metaInfo: { sampling, validate: options.validate ?? false, global_steps: step },
  });
}

/** What a curriculum is told: the score of every rollout, under the number of its item in the dataset. */
export function sampleFeedback(batch: DataProto): SampleFeedback[] {
  const totals = batch.tensor('token_level_scores').sum(-1);
  const scores = totals.toFloat32Array();
  totals.dispose();
  const items = batch.column<number>('item_index');
  return [...new Set(decidingRows(batch))].map((row) => ({ index: items[row]!, score: scores[row]! }));
}

/**
 * The rows with what was generated from them. A program's rollout may give several trajectories (separate or edited
 * conversations): its row then stands once for each, with the same uid; a row from which nothing was generated is left out.
 */
export function joinGenerated(rows: DataProto, generated: DataProto): DataProto {
  const ids = rows.column<number>('row_id');
  const wanted = generated.column<number>('row_id');
  if (wanted.length === 0)
    throw new UserError(
      'no agent of this step called the policy, so there is nothing to learn from; see the warnings above',
    );
  const trajectories = generated.column<Pick<Trajectory, 'endReason' | 'error'>>('trajectory');
  // One that fails says something about itself; when all do, it is the engine, the template or the tools, and no step can help.
  if (trajectories.every(({ endReason }) => endReason === 'error'))
    throw new UserError(
      `all ${trajectories.length} trajectories of this step failed; the first: ${trajectories[0]!.error}`,
    );
  const isSame = wanted.length === ids.length && wanted.every((id, k) => id === ids[k]);
  const position = new Map(ids.map((id, k) => [id, k]));
  const joined = isSame ? rows : rows.selectIdxs(wanted.map((id) => position.get(id)!));
  joined.union(generated);
  nameTrajectories(joined);
  // Programs that give more rows than were asked for do not get more updates: mini-batches are counted in prompts.
  joined.metaInfo.num_prompts = new Set(joined.column<string>('uid')).size;
  return joined;
}
