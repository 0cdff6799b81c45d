import { execFile } from 'node:child_process';
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { temporaryFolder, verlet } from './tiny-model.js';

const root = temporaryFolder('init');

describe('verlet init', () => {
  it('writes a project whose own test runs', async () => {
    const folder = path.join(root, 'My Agent');
    const { exitCode, printed, noted } = await verlet(['init', folder]);
    expect(exitCode, noted).toBe(0);
    expect(printed).toContain('my-agent in ');
    expect(JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')).name).toBe('my-agent');
    expect(existsSync(path.join(folder, '.gitignore'))).toBe(true);
    // From a checkout, `npm install` takes the packages that are there.
    const { dependencies } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
    for (const name of ['verlet', '@verlet/torch']) {
      const place = (dependencies[name] as string).replace(/^file:/, '');
      expect(JSON.parse(readFileSync(path.join(place, 'package.json'), 'utf8')).name).toBe(name);
    }
    // What `npm install` would do.
    symlinkSync(fileURLToPath(new URL('../../../../node_modules', import.meta.url)), path.join(folder, 'node_modules'));
    const { stdout } = await promisify(execFile)(process.execPath, ['--test', 'test/project.test.mjs'], {
      cwd: folder,
      timeout: 110_000,
    }).catch((error: { stdout: string }) => error);
    expect(stdout).toMatch(/pass 3\b/);
  });

  it('never replaces a file', async () => {
    const folder = path.join(root, 'taken');
    await verlet(['init', folder, '--name', 'first']);
    writeFileSync(path.join(folder, 'reward.ts'), 'mine');
    const again = await verlet(['init', folder]);
    expect(again.exitCode).toBe(2);
    expect(again.noted).toContain('reward.ts');
    expect(readFileSync(path.join(folder, 'reward.ts'), 'utf8')).toBe('mine');
    expect((await verlet(['init', path.join(root, 'x'), '--name', '***'])).exitCode).toBe(2);
    expect(existsSync(path.join(root, 'x'))).toBe(false);
  });
});
