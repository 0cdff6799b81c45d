/** What actor and reference do with a causal model: score the sampled tokens of a batch, in micro-batches, packed. */
import { nn, noGrad, scope, type Tensor, zeros } from '@verlet/torch';
import { PackedAttention } from '../models/attention.js';
import type { CausalLM } from '../models/transformer.js';
import { recordedHidden } from '../models/whole-pass.js';
import { type DataProto, shuffledRows } from '../protocol/index.js';
import type { ActivationTape } from '../rollout/activation-tape.js';
import {
  type PackedRows,
  packOptions,
  packRows,
  type RowSource,
  rowSource,
  sequenceLengths,
  unpack,
} from './packing.js';
import { recordedRows } from './recorded-rows.js';

export interface ScoreOptions {
  /** Row indices of each micro-batch; together every row once. */
  microBatches: readonly (readonly number[])[];
  temperature: number;
  entropy?: boolean;
  sumPiSquared?: boolean;
  /** Compute a prompt that several rows of a micro-batch have once; so by default. */
  sharePrompts?: boolean;
  /** Where rows may be found that were sampled with the model as it is now. */
  tape?: ActivationTape | null;
}

export interface Scores {
  /** Each [rows, responseWidth] float32 on the CPU, zero where nothing was sampled. */
  logProbs: Tensor;
  entropy: Tensor | null;
  sumPiSquared: Tensor | null;
  /** Tokens that were not computed because rows share their prompts. */
  sharedTokens: number;
  /** Tokens that were not computed because sampling had done so. */
  recordedTokens: number;
}

/** Hidden states that predict the scored tokens of one micro-batch, and where those are. */
export function forwardRows(
  model: CausalLM,
  source: RowSource,
  rows: readonly number[],
  options: { sharePrompts?: boolean; tape?: ActivationTape | null } = {},
): { packed: PackedRows; hidden: Tensor; isRecorded: boolean } {
  const packed = packRows(source, rows, packOptions(model, options.sharePrompts));
  const recorded = recordedRows(options.tape, source, packed);
  if (recorded) return { packed, hidden: recordedHidden(model.model, recorded, packed.predictors), isRecorded: true };
  const context = new PackedAttention(packed.lengths, model.device, packed.prefixes);
  const hidden = noGrad(() => scope(() => model.model.forward(packed.inputIds, context, packed.predictors)));
  context.dispose();
  return { packed, hidden, isRecorded: false };
}

/** Log-probabilities (and entropy) of the sampled tokens under the model as it is now. */
export function scoreBatch(model: CausalLM, batch: DataProto, options: ScoreOptions): Scores {
  const source = rowSource(batch);
  const made = (): Tensor => zeros([source.rows, source.responseWidth]).keep();
  const scores: Scores = {
    logProbs: made(),
    entropy: options.entropy ? made() : null,
    sumPiSquared: options.sumPiSquared ? made() : null,
    sharedTokens: 0,
    recordedTokens: 0,
  };
  for (const rows of options.microBatches)
    scope(() => {
      const { packed, hidden, isRecorded } = forwardRows(model, source, rows, options);
      const head = new nn.LogProbHead(hidden, model.headWeight, packed.targets, options);
      const index = nn.indexTensor(rows);
      const put = (target: Tensor | null, values: Tensor | null): void => {
        if (target && values) target.indexCopy_(0, index, unpack(values, packed).to('cpu'));
        values?.dispose();
      };
      scores.sharedTokens += packed.sharedTokens;
      if (isRecorded) scores.recordedTokens += packed.tokens;
      put(scores.logProbs, head.result.logProbs);
      put(scores.entropy, head.result.entropy);
      put(scores.sumPiSquared, head.result.sumPiSquared);
      packed.dispose();
    });
  return scores;
}

/**
 * Rows in order, cut into even mini-batches of about `prompts` prompts each. The trainer says how many prompts the batch holds
 * (`num_prompts`), because agents may give more or fewer rows than were asked for: neither does the number of updates change
 * with that, nor becomes a remainder of a few rows a noisy update of its own.
 */
export function miniBatchRows(
  batch: DataProto,
  prompts: number,
  rowsPerPrompt: number,
  shuffleSeed?: number,
): number[][] {
  const { length, metaInfo } = batch;
  // The same order on every rank: rows that ranks hold at one place stay in one mini-batch.
  const order = shuffledRows(length, shuffleSeed);
  const held = typeof metaInfo.num_prompts === 'number' ? metaInfo.num_prompts : length / rowsPerPrompt;
  const count = Math.min(length, Math.max(1, Math.round(held / prompts)));
  return Array.from({ length: count }, (_, k) => {
    const start = Math.round((k * length) / count);
    const end = Math.round(((k + 1) * length) / count);
    return order.slice(start, end);
  });
}

/** The seed of a shuffle of its own for every pass over a batch; none where nothing is shuffled. */
export function shuffleSeed(
  settings: { shuffle: boolean; data_loader_seed: number | null; ppo_epochs: number },
  updates: number,
  epoch: number,
): number | undefined {
  if (!settings.shuffle) return undefined;
  return (settings.data_loader_seed ?? 0) * 1_000_003 + updates * settings.ppo_epochs + epoch;
}

/** Rows of one pass on one rank; the old form of the setting counts them over all ranks. */
export function rowsPerPass(
  perRank: number | null | undefined,
  overAllRanks: number | null | undefined,
  worldSize: number,
): number | null {
  return perRank ?? (overAllRanks ? Math.max(1, Math.floor(overAllRanks / worldSize)) : null);
}

export { sequenceLengths };
