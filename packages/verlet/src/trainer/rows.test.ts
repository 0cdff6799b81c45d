import { expect, it } from 'vitest';
import type { AgentRow } from '../agents/index.js';
import { composeConfig } from '../config/index.js';
import type { RlItem } from '../data/index.js';
import { DataProto } from '../protocol/index.js';
import { joinGenerated, promptRows } from './rows.js';

const { config } = composeConfig({
  kind: 'ppo',
  overrides: ['data.train_files=x.parquet', 'actor_rollout_ref.model.path=m', 'actor_rollout_ref.rollout.n=2'],
});
const item = (index: number) => ({ index, rawPrompt: [], data_source: 'x' }) as unknown as RlItem;

it('a prompt that a mixture repeats within a batch is a group of its own, with its own noise', () => {
  const rows = promptRows([item(3), item(4), item(3)], config, 7).column<AgentRow>('agent_row');
  const groups = new Map<string, Set<number | undefined>>();
  for (const { uid, sampling } of rows) groups.set(uid!, (groups.get(uid!) ?? new Set()).add(sampling?.seed));
  expect(groups.size).toBe(3);
  expect([...groups.values()].every((seeds) => seeds.size === 1)).toBe(true);
  expect(new Set(rows.map(({ sampling }) => sampling?.seed)).size).toBe(3);
});

it('a step of which every trajectory failed is an error with its cause, one with a failure is not', () => {
  const join = (...errors: (string | undefined)[]) =>
    joinGenerated(
      promptRows([item(1)], config, 1),
      DataProto.fromDict({
        nonTensors: {
          row_id: errors.map((_, k) => k),
          trajectory: errors.map((error) => (error ? { endReason: 'error', error } : { endReason: 'stop' })),
        },
      }),
    );
  expect(() => join('no kernel', 'no kernel')).toThrow(/all 2 trajectories.*no kernel/);
  expect(join('no kernel', undefined)).toHaveLength(2);
});
