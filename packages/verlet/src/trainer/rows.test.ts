import { expect, it } from 'vitest';
import type { AgentRow } from '../agents/index.js';
import { composeConfig } from '../config/index.js';
import type { RlItem } from '../data/index.js';
import { promptRows } from './rows.js';

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
