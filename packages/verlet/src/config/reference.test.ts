// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { composeConfig, type PpoConfig, renderConfig } from './index.js';
import { renderMegatronTemplate, renderReference, renderTemplate } from './reference.js';

it('types promise what the schema holds', async () => {
  const root = fileURLToPath(new URL('../../../../', import.meta.url));
  const compiler = createRequire(import.meta.url)
    .resolve('typescript/package.json')
    .replace('package.json', 'bin/tsc');
  const project = join(root, 'packages/verlet/test/config-types');
  const { stdout } = await promisify(execFile)(process.execPath, [compiler, '-p', project], { timeout: 90_000 }).catch(
    (error: { stdout: string }) => error,
  );
  expect(stdout).toBe('');
});

it('a printed tree, read as a file, is the same tree', () => {
  const folder = mkdtempSync(join(tmpdir(), 'verlet-print-'));
  const file = join(folder, 'printed.yaml');
  const free = fc.dictionary(
    fc.stringMatching(/^[a-z][a-z_ :#-]{0,8}$/),
    fc.oneof(
      fc.string(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.array(fc.string()),
      fc.constant(null),
    ),
  );
  try {
    fc.assert(
      fc.property(
        free,
        fc.string({ minLength: 1 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (custom, name, gamma) => {
          fc.pre(!JSON.stringify([custom, name]).includes('${'));
          const object = { custom, trainer: { experiment_name: name }, algorithm: { gamma } };
          const written = composeConfig({ kind: 'ppo', object, allowMissing: true, skipChecks: true });
          writeFileSync(file, renderConfig(written));
          const read = composeConfig({ kind: 'ppo', files: [file], allowMissing: true, skipChecks: true });
          expect(read.config.custom).toEqual(normalizeZero(written.config.custom));
          expect({ ...read.config, custom: null }).toEqual(normalizeZero({ ...written.config, custom: null }));
        },
      ),
      { numRuns: 25 },
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** Printing has no -0. */
const normalizeZero = <T>(value: T): T =>
  JSON.parse(JSON.stringify(value), (_key, item) => (Object.is(item, -0) ? 0 : item)) as T;

it('the generated pages are up to date', () => {
  const root = new URL('../../../../', import.meta.url);
  const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
  const advice = 'run node scripts/generate-config-reference.mjs';
  expect(read('docs/reference/config.md') === renderReference(), advice).toBe(true);
  expect(read('packages/verlet/configs/ppo_trainer.yaml') === renderTemplate('ppo'), advice).toBe(true);
  expect(read('packages/verlet/configs/ppo_megatron_trainer.yaml') === renderMegatronTemplate(), advice).toBe(true);
  expect(read('packages/verlet/configs/sft_trainer.yaml') === renderTemplate('sft'), advice).toBe(true);
  expect(read('packages/verlet/configs/generation.yaml') === renderTemplate('generation'), advice).toBe(true);
  expect(read('packages/verlet/configs/evaluation.yaml') === renderTemplate('evaluation'), advice).toBe(true);
});

it.each([
  ['ppo_trainer', 'ppo'],
  ['ppo_megatron_trainer', 'ppo'],
  ['sft_trainer', 'sft'],
  ['generation', 'generation'],
  ['evaluation', 'evaluation'],
] as const)('configs/%s.yaml loads and changes nothing', (name, kind) => {
  const file = new URL(`../../configs/${name}.yaml`, import.meta.url).pathname;
  const composed = composeConfig({ kind, files: [file], allowMissing: true });
  const builtin = composeConfig({ kind, files: [name], allowMissing: true, skipChecks: true });
  if (name === 'ppo_megatron_trainer')
    builtin.config = { ...builtin.config, reward_model: (composed.config as PpoConfig).reward_model } as never;
  expect(composed.config).toEqual(builtin.config);
});
