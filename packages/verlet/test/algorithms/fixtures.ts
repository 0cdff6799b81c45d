/** Vectors made by running the peers' own functions in float64: `{area, name, input, expected, source}`. */
import { readFileSync } from 'node:fs';
import { type NestedNumbers, type Tensor, tensor } from '@verlet/torch';
import { expect } from 'vitest';
import type { PolicyLossConfig } from '../../src/algorithms/index.js';

export interface Vector {
  area: string;
  name: string;
  input: Record<string, unknown>;
  expected: unknown;
  source: string;
}

const all = JSON.parse(
  readFileSync(new URL('../fixtures/vectors-algorithms.json', import.meta.url), 'utf8'),
) as Vector[];

export function vectorsOf(area: string): Vector[] {
  const found = all.filter((vector) => vector.area === area);
  if (found.length === 0) throw new Error(`no vectors of area '${area}'`);
  return found;
}

export function vector(area: string, name: string): Vector {
  const found = all.find((candidate) => candidate.area === area && candidate.name === name);
  if (!found) throw new Error(`no vector '${area}/${name}'`);
  return found;
}

const numbers = (value: unknown): NestedNumbers =>
  Array.isArray(value) ? value.map(numbers) : value === 'NaN' ? Number.NaN : Number(value);

/** A double tensor from JSON numbers, where "NaN" stands for NaN. */
export function doubles(value: unknown): Tensor {
  return tensor(numbers(value), { dtype: 'float64' });
}

/** Relative tolerance 1e-6, as the vectors state. */
export function expectClose(actual: unknown, expected: unknown, path = ''): void {
  if (Array.isArray(expected)) {
    expect(Array.isArray(actual) && actual.length, `${path} length`).toBe(expected.length);
    expected.forEach((item, k) => {
      expectClose((actual as unknown[])[k], item, `${path}[${k}]`);
    });
    return;
  }
  if (expected !== null && typeof expected === 'object') {
    for (const [key, item] of Object.entries(expected))
      expectClose((actual as Record<string, unknown>)[key], item, `${path}.${key}`);
    return;
  }
  if (expected === 'NaN') {
    expect(actual, path).toBeNaN();
    return;
  }
  const [a, e] = [Number(actual), Number(expected)];
  // 1e-11 is the printed precision of the vectors around zero.
  expect(Math.abs(a - e), `${path}: got ${a}, expected ${e}`).toBeLessThanOrEqual(1e-6 * Math.abs(e) + 1e-11);
}

export const localCounts = { dpSize: 1, batchNumTokens: null, globalBatchSize: null };

export function lossConfig(
  lossMode: string,
  changes: Partial<PolicyLossConfig> = {},
  own: Partial<PolicyLossConfig['policy_loss']> = {},
): PolicyLossConfig {
  return {
    clip_ratio: 0.2,
    tau_pos: 1,
    tau_neg: 1.05,
    ...changes,
    policy_loss: {
      loss_mode: lossMode,
      clip_cov_ratio: 0.0002,
      clip_cov_lb: 1,
      clip_cov_ub: 5,
      kl_cov_ratio: 0.0002,
      ppo_kl_coef: 0.1,
      dro_beta: null,
      ...own,
    },
  };
}
