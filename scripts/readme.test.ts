import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const readme = readFileSync(path.join(root, 'README.md'), 'utf8');

describe('README', () => {
  it('gives two commands for a fresh machine, and both are scripts of this workspace', () => {
    const commands = [...readme.matchAll(/^npm ci && npm (?:run )?(\w+)/gm)].map((match) => match[1]!);
    expect(commands).toEqual(['quickstart', 'test']);
    const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    for (const command of commands) expect(scripts).toHaveProperty(command);
  });

  it('has an example that does what its comment says', () => {
    const blocks = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!);
    const example = blocks.find((block) => block.includes('@verlet/torch'))!;
    // Node resolves packages from the file's own folder, so it has to stand inside the workspace. `!` is all that is not JavaScript.
    const folder = path.join(root, 'node_modules/.cache/verlet');
    const file = path.join(folder, `readme-${process.pid}.mjs`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, example.replaceAll('!.', '.'));
    try {
      const { stdout, stderr } = spawnSync(process.execPath, [file], { encoding: 'utf8', timeout: 60_000 });
      expect(stderr).toBe('');
      const weight = JSON.parse(stdout) as number[];
      expect(weight).toHaveLength(3);
      [2, -1, 0.5].forEach((value, index) => {
        expect(weight[index]).toBeCloseTo(value, 2);
      });
    } finally {
      rmSync(file, { force: true });
    }
  });
});
