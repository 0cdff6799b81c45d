// Writes what is generated from the configuration schema: the reference page and the commented YAML files.
// `--check` writes nothing and fails when something is out of date.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { renderMegatronTemplate, renderReference, renderTemplate } from '../packages/verlet/dist/config/reference.js';

const root = new URL('../', import.meta.url);
const files = {
  'docs/reference/config.md': renderReference(),
  'packages/verlet/configs/ppo_trainer.yaml': renderTemplate('ppo'),
  'packages/verlet/configs/ppo_megatron_trainer.yaml': renderMegatronTemplate(),
  'packages/verlet/configs/sft_trainer.yaml': renderTemplate('sft'),
  'packages/verlet/configs/generation.yaml': renderTemplate('generation'),
  'packages/verlet/configs/evaluation.yaml': renderTemplate('evaluation'),
};

let stale = 0;
for (const [path, text] of Object.entries(files)) {
  const file = fileURLToPath(new URL(path, root));
  if (process.argv.includes('--check')) {
    let current = '';
    try {
      current = readFileSync(file, 'utf8');
    } catch {
      // A missing file is out of date as well.
    }
    if (current === text) continue;
    console.error(`${path} is out of date: run node scripts/generate-config-reference.mjs`);
    stale++;
  } else {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    console.log(`wrote ${path}`);
  }
}
process.exitCode = stale === 0 ? 0 : 1;
