/** Which rows go through a model together. Rows of one prompt stay together where they can: its tokens are then computed once. */
import { ceilDivide, karmarkarKarp, rearrangeMicroBatches, workload } from '../algorithms/index.js';
import { type PackOptions, promptLengths, type RowSource, sequenceLengths } from './packing.js';

export interface MicroBatchPlan {
  /** Rows of a micro-batch; null to fill them by tokens. */
  size: number | null;
  /** Tokens of a micro-batch where its size is null. */
  budget: number;
  pack: PackOptions;
}

/** Every row once. Gradients add up over micro-batches, so that the cut changes nothing but the order of sums. */
export function microBatches(source: RowSource, rows: readonly number[], plan: MicroBatchPlan): number[][] {
  const lengths = sequenceLengths(source);
  const shares = plan.pack.sharePrompts && rows.every((row) => lengths[row]! <= plan.pack.longestShared);
  if (plan.size !== null) return fixedMicroBatches(shares ? rowsByPrompt(source, rows).flat() : rows, plan.size);
  if (shares) return wholePrompts(source, rows, lengths, plan.budget);
  const own = rows.map((row) => lengths[row]!);
  return rearrangeMicroBatches(own, plan.budget).map((part) => part.map((k) => rows[k]!));
}

/** Rows in order, `size` at a time. */
export function fixedMicroBatches(rows: readonly number[], size: number): number[][] {
  const batches: number[][] = [];
  for (let start = 0; start < rows.length; start += size) batches.push(rows.slice(start, start + size));
  return batches;
}

/** Rows of equal prompts together, in the order in which the prompts come first. */
function rowsByPrompt(source: RowSource, rows: readonly number[]): number[][] {
  const groups = new Map<number, number[]>();
  for (const row of rows) {
    const prompt = source.promptOf[row]!;
    const group = groups.get(prompt);
    if (group) group.push(row);
    else groups.set(prompt, [row]);
  }
  return [...groups.values()];
}

/** Rows that are computed as one prompt and its responses. */
interface Family {
  rows: number[];
  tokens: number;
  work: number;
}

/** Families of equal work in as few micro-batches as their tokens allow; no micro-batch has more tokens than the budget. */
function wholePrompts(
  source: RowSource,
  rows: readonly number[],
  lengths: readonly number[],
  budget: number,
): number[][] {
  const prompts = promptLengths(source);
  const families = rowsByPrompt(source, rows).flatMap((group) => cutFamily(group, lengths, prompts, budget));
  // One row that is longer than the budget is an error in either way of cutting, and said by the other.
  if (families.some(({ tokens }) => tokens > budget))
    rearrangeMicroBatches(
      rows.map((row) => lengths[row]!),
      budget,
    );
  const total = families.reduce((sum, { tokens }) => sum + tokens, 0);
  const work = families.map((family) => family.work);
  for (let count = Math.max(1, ceilDivide(total, budget)); count < families.length; count++) {
    const parts = karmarkarKarp(work, count);
    if (parts.every((part) => part.reduce((sum, k) => sum + families[k]!.tokens, 0) <= budget))
      return parts.map((part) => part.flatMap((k) => families[k]!.rows));
  }
  return families.map((family) => family.rows);
}

/** A group as one family, or as several that each fit the budget and bring the prompt themselves. */
function cutFamily(
  group: readonly number[],
  lengths: readonly number[],
  prompts: readonly number[],
  budget: number,
): Family[] {
  const families: Family[] = [];
  for (const row of group) {
    const last = families.at(-1);
    const response = lengths[row]! - prompts[row]!;
    if (last && last.tokens + response <= budget) {
      last.rows.push(row);
      last.tokens += response;
      last.work += workload(lengths[row]!) - workload(prompts[row]!);
    } else families.push({ rows: [row], tokens: lengths[row]!, work: workload(lengths[row]!) });
  }
  return families;
}
