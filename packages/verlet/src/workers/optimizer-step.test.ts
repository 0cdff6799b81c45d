import { expect, it } from 'vitest';
import { composeConfig } from '../config/index.js';
import { createOptimizer, rateSchedule } from './optimizer-step.js';

function optim(...overrides: string[]) {
  const words = overrides.map((word) => `critic.optim.${word}`);
  return composeConfig({ kind: 'ppo', overrides: ['data.train_files=x', 'actor_rollout_ref.model.path=m', ...words] })
    .config.critic.optim;
}
const rates = (steps: number, ...overrides: string[]): number[] => {
  const rate = rateSchedule(optim(...overrides), steps);
  return Array.from({ length: steps }, (_, updates) => Number(rate(updates).toFixed(4)));
};

it.each(['constant', 'linear', 'cosine', 'wsd'])(
  'lays out the %s schedule, with warm-up from init_lr_ratio',
  (type) => {
    const laid = rates(
      10,
      `lr_scheduler_type=${type}`,
      'lr_warmup_steps=2',
      'init_lr_ratio=0.5',
      'min_lr_ratio=0.1',
      'stable_ratio=0.5',
    );
    expect(laid.slice(0, 3)).toEqual([0.5, 0.75, 1]);
    if (type === 'constant') expect(laid.slice(2).every((rate) => rate === 1)).toBe(true);
    else expect(laid.at(-1)).toBeLessThan(1);
    expect(Math.min(...laid)).toBeGreaterThanOrEqual(0.1);
  },
);

it('wsd holds the peak for stable_ratio of what follows warm-up, then falls', () => {
  const laid = rates(12, 'lr_scheduler_type=wsd', 'lr_warmup_steps=2', 'stable_ratio=0.5');
  expect(laid.slice(2, 7).every((rate) => rate === 1)).toBe(true);
  expect(laid[8]).toBeLessThan(1);
  expect(laid[11]).toBeLessThan(laid[9]!);
});

it('refuses an optimizer that is not there instead of taking another', () => {
  expect(() => createOptimizer({} as never, optim('optimizer=SGD'), 3)).toThrow(/SGD is not there/);
});
