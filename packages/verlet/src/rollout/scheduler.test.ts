/** Bookkeeping of blocks and turns, without a model: whatever happens, no block is lost, shared by mistake or left over. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockKeys, BlockPool } from './blocks.js';
import { validateSampling } from './sampling-params.js';
import { Scheduler } from './scheduler.js';
import { Sequence } from './sequence.js';

const blockSize = 4;

function makeSequence(id: string, tokens: number[], maxTokens: number): Sequence {
  return new Sequence(id, tokens, validateSampling({ maxTokens }), 0, { blockSize, maxModelLength: 64, seed: 0 });
}

describe('the block pool', () => {
  it('reuses the block that was idle longest, and finds remembered ones until then', () => {
    const pool = new BlockPool(3, blockSize);
    const [a, b] = [pool.take()!, pool.take()!];
    pool.remember(a, 'first');
    pool.drop(a);
    pool.drop(b);
    expect(pool.find('first')).toBe(a);
    expect(pool.take()).toBe(2);
    expect(pool.take()).toBe(a);
    expect(pool.find('first')).toBeUndefined();
    expect(pool.take()).toBe(b);
    expect(pool.take()).toBeNull();
    expect(() => {
      pool.drop(a);
      pool.drop(a);
    }).toThrow(/dropped more often/);
  });

  it('keeps count under any sequence of takes, holds and drops', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), fc.nat(50)), { maxLength: 200 }), (actions) => {
        const pool = new BlockPool(8, blockSize);
        const held: number[] = [];
        for (const [action, pick] of actions) {
          if (action === 0) {
            const block = pool.take();
            if (block === null) expect(new Set(held).size).toBe(8);
            else {
              expect(held).not.toContain(block);
              held.push(block);
            }
          } else if (held.length > 0) {
            const at = pick % held.length;
            if (action === 1) {
              pool.hold(held[at]!);
              held.push(held[at]!);
            } else pool.drop(held.splice(at, 1)[0]!);
          }
          expect(pool.numFree).toBe(8 - new Set(held).size);
        }
      }),
    );
  });

  it('keys blocks by all tokens up to their end', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(5), { maxLength: 40 }), fc.array(fc.nat(5), { maxLength: 40 }), (a, b) => {
        const keys = (tokens: number[]): string[] => {
          const made = new BlockKeys(blockSize);
          made.extend(tokens);
          return made.keys;
        };
        const [left, right] = [keys(a), keys(b)];
        for (let k = 0; k < Math.min(left.length, right.length); k++) {
          const same = a.slice(0, (k + 1) * blockSize).join() === b.slice(0, (k + 1) * blockSize).join();
          expect(left[k] === right[k]).toBe(same);
        }
      }),
    );
  });
});

interface Plan {
  numBlocks: number;
  budget: number;
  maxNumSeqs: number;
  arrivals: { prompt: number[]; maxTokens: number; at: number; abortAt: number }[];
  ahead: boolean;
}

const plans: fc.Arbitrary<Plan> = fc.record({
  numBlocks: fc.integer({ min: 17, max: 40 }),
  budget: fc.integer({ min: 3, max: 40 }),
  maxNumSeqs: fc.integer({ min: 1, max: 6 }),
  ahead: fc.boolean(),
  arrivals: fc.array(
    fc.record({
      prompt: fc.array(fc.nat(1), { minLength: 1, maxLength: 30 }),
      maxTokens: fc.integer({ min: 1, max: 20 }),
      at: fc.nat(30),
      abortAt: fc.integer({ min: 0, max: 400 }),
    }),
    { minLength: 1, maxLength: 14 },
  ),
});

/** A scheduler driven as the engine drives it, with made-up tokens; checks the rules after every turn. */
function drive(plan: Plan): void {
  const pool = new BlockPool(plan.numBlocks, blockSize);
  const limits = { maxNumSeqs: plan.maxNumSeqs, maxNumBatchedTokens: plan.budget, enablePrefixCaching: true };
  const scheduler = new Scheduler(pool, limits);
  const all = plan.arrivals.map((arrival, k) => makeSequence(`s${k}`, arrival.prompt, arrival.maxTokens));
  let flight: Sequence[] | null = null;
  const accept = (sequence: Sequence): void => {
    sequence.push((sequence.tokens.length * 7) % 3, 0, 0);
    if (sequence.numOutput < sequence.maxTokens) return;
    scheduler.remove(sequence);
    sequence.finish('length');
  };
  const land = (sequences: readonly Sequence[]): void => {
    for (const sequence of sequences) {
      if (sequence.isFinished) continue;
      scheduler.decoded(sequence);
      accept(sequence);
    }
  };
  for (let turn = 0; turn < 3000; turn++) {
    for (const [k, arrival] of plan.arrivals.entries()) {
      if (arrival.at === turn) scheduler.add(all[k]!);
      if (arrival.abortAt === turn && arrival.at < turn && !all[k]!.isFinished) {
        scheduler.remove(all[k]!);
        all[k]!.finish('abort');
      }
    }
    if (flight) {
      const landing: Sequence[] = flight;
      const following = scheduler.scheduleNext();
      flight = following && following.length > 0 ? following : null;
      for (const sequence of flight ?? [])
        expect(sequence.blocks.length * blockSize).toBeGreaterThan(sequence.tokens.length);
      land(landing);
    } else {
      const schedule = scheduler.schedule();
      if (schedule.kind === 'prefill') {
        let computed = 0;
        for (const job of schedule.jobs) {
          computed += job.end - job.start;
          for (const sequence of job.sequences)
            expect(sequence.blocks.length * blockSize).toBeGreaterThanOrEqual(job.end);
        }
        expect(computed).toBeLessThanOrEqual(plan.budget);
        for (const job of schedule.jobs) {
          scheduler.prefilled(job);
          if (job.completes) for (const sequence of job.sequences) accept(sequence);
        }
        scheduler.copies.length = 0;
      } else if (schedule.kind === 'decode') {
        for (const sequence of schedule.sequences)
          expect(sequence.blocks.length * blockSize).toBeGreaterThanOrEqual(sequence.tokens.length);
        if (plan.ahead) flight = schedule.sequences;
        else land(schedule.sequences);
      }
    }
    expect(scheduler.running.length).toBeLessThanOrEqual(plan.maxNumSeqs);
    // A block that two sequences hold contains the same tokens for both.
    const contents = new Map<number, string>();
    for (const sequence of all)
      for (let k = 0; k < Math.floor(sequence.numComputed / blockSize); k++) {
        const tokens = sequence.tokens.slice(0, (k + 1) * blockSize).join();
        const block = sequence.blocks[k]!;
        expect(contents.get(block) ?? tokens).toBe(tokens);
        contents.set(block, tokens);
      }
    if (!scheduler.hasWork && !flight && turn > 30) break;
  }
  expect(all.every((sequence) => sequence.isFinished)).toBe(true);
  expect(scheduler.hasWork).toBe(false);
  expect(pool.numFree).toBe(plan.numBlocks);
}

describe('the scheduler', () => {
  it('finishes everybody and gives every block back', () => {
    fc.assert(fc.property(plans, drive), { numRuns: 200 });
  });
});
