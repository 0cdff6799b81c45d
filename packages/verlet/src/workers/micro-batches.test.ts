import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { microBatches } from './micro-batches.js';
import type { RowSource } from './packing.js';

const promptWidth = 6;
const responseWidth = 10;
const pack = { device: 'cpu', sharePrompts: true, longestShared: Number.POSITIVE_INFINITY };

/** Rows by the number of their prompt and the length of their response; a prompt is as long as its number says. */
function sourceOf(rows: readonly (readonly [prompt: number, response: number])[]): RowSource {
  const width = promptWidth + responseWidth;
  const promptLength = (prompt: number): number => 1 + (prompt % promptWidth);
  const attentionMask = Uint8Array.from(
    rows.flatMap(([prompt, response]) =>
      Array.from({ length: width }, (_, k) =>
        k >= promptWidth - promptLength(prompt) && k < promptWidth + response ? 1 : 0,
      ),
    ),
  );
  return {
    inputIds: new Int32Array(rows.length * width),
    attentionMask,
    responseMask: new Uint8Array(rows.length * responseWidth),
    rows: rows.length,
    width,
    responseWidth,
    promptOf: Int32Array.from(rows, ([prompt]) => rows.findIndex(([other]) => other === prompt)),
  };
}

const rows = fc.array(fc.tuple(fc.nat(8), fc.nat(responseWidth)), { minLength: 1, maxLength: 30 });
const ascending = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);

/** Tokens that a micro-batch computes. */
function tokensOf(batch: readonly number[], of: readonly (readonly [number, number])[]): number {
  const prompts = new Set(batch.map((row) => of[row]![0]));
  const shared = [...prompts].reduce((sum, prompt) => sum + 1 + (prompt % promptWidth), 0);
  return shared + batch.reduce((sum, row) => sum + of[row]![1], 0);
}

describe('micro-batches by tokens', () => {
  it('hold every row once and never more tokens than the budget', () => {
    fc.assert(
      fc.property(rows, fc.integer({ min: promptWidth + responseWidth, max: 120 }), (all, budget) => {
        const chosen = all.map((_, row) => row).filter((row) => row % 5 !== 3);
        const parts = microBatches(sourceOf(all), chosen, { size: null, budget, pack });
        expect(ascending(parts.flat())).toEqual(chosen);
        for (const part of parts) expect(tokensOf(part, all)).toBeLessThanOrEqual(budget);
      }),
    );
  });

  it('keep the rows of a prompt together, and cut those that do not fit', () => {
    const all = [0, 1, 2].flatMap((prompt) => Array.from({ length: 4 }, () => [prompt + 3, 5] as const));
    const parts = microBatches(
      sourceOf(all),
      all.map((_, row) => row),
      { size: null, budget: 26, pack },
    );
    expect(ascending(parts.map((part) => part.length))).toEqual([4, 4, 4]);
    for (const part of parts) expect(new Set(part.map((row) => all[row]![0])).size).toBe(1);
    const cut = microBatches(sourceOf(all.slice(0, 4)), [0, 1, 2, 3], { size: null, budget: 16, pack });
    expect(cut.map((part) => part.length)).toEqual([2, 2]);
  });

  it('say which row is too long, and cut by rows alone where prompts cannot be shared', () => {
    const all = [
      [5, 10],
      [5, 10],
    ] as const;
    expect(() => microBatches(sourceOf(all), [0, 1], { size: null, budget: 15, pack })).toThrow(
      /16 tokens does not fit a micro-batch of 15/,
    );
    const by = (other: Partial<typeof pack>) =>
      microBatches(sourceOf(all), [0, 1], { size: null, budget: 26, pack: { ...pack, ...other } }).length;
    expect([by({}), by({ sharePrompts: false }), by({ longestShared: 15 })]).toEqual([1, 2, 2]);
  });
});

it('micro-batches by rows take the rows of a prompt one after the other', () => {
  const all = [1, 2, 1, 2, 1, 3].map((prompt) => [prompt, 4] as const);
  const order = [5, 4, 3, 2, 1, 0];
  expect(microBatches(sourceOf(all), order, { size: 3, budget: 1, pack })).toEqual([
    [5, 4, 2],
    [0, 3, 1],
  ]);
  expect(microBatches(sourceOf(all), order, { size: 4, budget: 1, pack: { ...pack, sharePrompts: false } })).toEqual([
    [5, 4, 3, 2],
    [1, 0],
  ]);
});
