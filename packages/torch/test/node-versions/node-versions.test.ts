import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { otherNode } from './other-node.mjs';

const smoke = fileURLToPath(new URL('./smoke.mjs', import.meta.url));

function runSmoke(node: string) {
  const outcome = spawnSync(node, [smoke], { encoding: 'utf8', timeout: 90_000 });
  expect(outcome.stderr).toBe('');
  expect(outcome.signal).toBeNull();
  const { results, ...rest } = JSON.parse(outcome.stdout) as {
    node: string;
    live: number;
    results: { weight: number; product: number }[];
  };
  return { ...rest, results };
}

describe('one addon file, on the main thread and in two workers', () => {
  it('works on the Node that runs the tests', () => {
    const { results, live } = runSmoke(process.execPath);
    expect(results).toHaveLength(3);
    for (const { weight, product } of results) {
      expect(weight).toBeCloseTo(3, 4);
      expect(product).toBe(64 ** 3);
    }
    expect(live).toBe(0);
  });

  for (const major of [22, 24] as const) {
    it(`works on Node ${major}`, (context) => {
      if (process.platform !== 'linux' || process.arch !== 'x64')
        context.skip('the registry has this Node for Linux x64 only');
      let binary = '';
      try {
        binary = otherNode(major);
      } catch (error) {
        context.skip(`Node ${major} could not be fetched: ${(error as Error).message.split('\n')[0]}`);
      }
      const { node, results } = runSmoke(binary);
      expect(node.split('.')[0]).toBe(String(major));
      for (const { weight, product } of results) {
        expect(weight).toBeCloseTo(3, 4);
        expect(product).toBe(64 ** 3);
      }
    });
  }
});
