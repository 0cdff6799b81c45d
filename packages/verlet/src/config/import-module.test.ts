import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';

const folder = mkdtempSync(path.join(tmpdir(), 'verlet-import-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** In a process of its own: the test runner has ways to read TypeScript that users do not have. */
function importIn(place: string, file: string): string {
  const source = new URL('../../dist/config/import-module.js', import.meta.url).href;
  const program = `const { importModule } = await import(${JSON.stringify(source)});
    console.log((await importModule(${JSON.stringify(path.join(place, file))})).answer());`;
  return execFileSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    timeout: 30_000,
    stdio: ['ignore', 'pipe', 'pipe'],
  }).trim();
}

describe('modules of the user', () => {
  it.each([
    ['no package.json', null],
    ['a package.json without a type', {}],
    ['CommonJS', { type: 'commonjs' }],
    ['modules', { type: 'module' }],
  ])('TypeScript is read in a folder with %s', (name, manifest) => {
    const place = mkdtempSync(path.join(folder, 'p-'));
    if (manifest) writeFileSync(path.join(place, 'package.json'), JSON.stringify(manifest));
    writeFileSync(path.join(place, 'other.ts'), `export const name: string = ${JSON.stringify(name)};\n`);
    writeFileSync(
      path.join(place, 'main.ts'),
      "import { name } from './other.ts';\nimport type { Stats } from 'node:fs';\nexport function answer(_?: Stats): string { return name; }\n",
    );
    expect(importIn(place, 'main.ts')).toBe(name);
  });
});
