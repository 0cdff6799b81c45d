import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { checkImports, importsOf, readSources } from './check-imports.mjs';

const file = (name: string, text: string) => ({ file: `packages/${name}`, text });

describe('import direction', () => {
  it('holds in this repository', () => {
    const sources = readSources(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
    expect(sources.length).toBeGreaterThan(0);
    expect(checkImports(sources)).toEqual([]);
  });

  it('finds every way to import, and nothing in comments', () => {
    const text = `
      import './effects.js';
      import fs from 'node:fs';
      import { a,
        b } from "./two-lines.js";
      export * from './again.js';
      const later = await import('./later.js');
      // import x from './comment.js'
      /* import y from './block.js' */
    `;
    expect(importsOf(text)).toEqual(['./effects.js', 'node:fs', './two-lines.js', './again.js', './later.js']);
  });

  it('refuses an import from above', () => {
    const problems = checkImports([file('verlet/src/models/qwen.ts', "import { train } from '../trainer/ppo.js';")]);
    expect(problems).toEqual([
      "packages/verlet/src/models/qwen.ts: 'models' must not import from 'trainer', which stands above it",
    ]);
  });

  it('refuses two folders of one level that import each other, and allows one direction', () => {
    const there = file('verlet/src/agents/loop.ts', "import { Engine } from '../rollout/index.js';");
    const back = file('verlet/src/rollout/engine.ts', "import { Loop } from '../agents/loop.js';");
    expect(checkImports([there])).toEqual([]);
    expect(checkImports([there, back])).toHaveLength(1);
  });

  it('keeps the torch package free of the framework, and packages out of each other', () => {
    expect(checkImports([file('torch/src/tensor.ts', "import { x } from 'verlet';")])).toHaveLength(1);
    expect(
      checkImports([file('verlet/src/data/x.ts', "import { x } from '../../../torch/src/tensor.js';")]),
    ).toHaveLength(1);
    expect(checkImports([file('verlet/src/data/x.ts', "import { x } from '@verlet/torch';")])).toEqual([]);
  });

  it('asks for a level for a new folder', () => {
    expect(checkImports([file('verlet/src/misc/x.ts', '')])[0]).toContain('has no level');
  });
});
