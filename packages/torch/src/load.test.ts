import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const packageFolder = fileURLToPath(new URL('..', import.meta.url));
const temporary = mkdtempSync(path.join(tmpdir(), 'verlet-load-'));
afterAll(() => rmSync(temporary, { recursive: true, force: true }));

function runNode(source: string, env: NodeJS.ProcessEnv = process.env) {
  return spawnSync(process.execPath, ['--input-type=module', '-e', source], { encoding: 'utf8', timeout: 60_000, env });
}

/** A copy of the compiled package in a folder of its own, without what the build made. */
function copyWithoutBuild(name: string): string {
  const folder = path.join(temporary, name);
  for (const part of ['dist', 'scripts'])
    cpSync(path.join(packageFolder, part), path.join(folder, part), { recursive: true });
  writeFileSync(path.join(folder, 'package.json'), '{"type":"module"}');
  return folder;
}

const importLoad = (folder: string) =>
  `await import(${JSON.stringify(pathToFileURL(path.join(folder, 'dist/load.js')).href)})
     .catch((error) => console.log(error.name + ': ' + error.message));`;

describe('loading the addon', () => {
  it('says how to build it when it is not built', () => {
    const { stdout } = runNode(importLoad(copyWithoutBuild('unbuilt')));
    expect(stdout).toMatch(/AddonNotBuiltError: .*addon\.json is missing.*npm rebuild @verlet\/torch/);
  });

  it('says that its libtorch is gone, and what to do', () => {
    const folder = copyWithoutBuild('broken');
    mkdirSync(path.join(folder, 'build/cpu'), { recursive: true });
    writeFileSync(path.join(folder, 'build/cpu/verlet_torch.node'), 'not a library');
    const record = {
      file: 'cpu/verlet_torch.node',
      version: '2.13.0',
      variant: 'cpu',
      libtorch: '/nowhere',
      source: 'test',
    };
    writeFileSync(path.join(folder, 'build/addon.json'), JSON.stringify(record));
    const { stdout } = runNode(importLoad(folder));
    expect(stdout).toMatch(/AddonNotBuiltError: .*libtorch \/nowhere is gone.*npm rebuild @verlet\/torch/);
  });

  it('refuses an addon that was built from other sources', () => {
    const folder = copyWithoutBuild('stale');
    mkdirSync(path.join(folder, 'native'));
    mkdirSync(path.join(folder, 'build'));
    writeFileSync(path.join(folder, 'native/door.cc'), '// newer than the build');
    writeFileSync(path.join(folder, 'CMakeLists.txt'), '');
    const record = { file: 'cpu/verlet_torch.node', version: '2.13.0', variant: 'cpu', libtorch: '/nowhere' };
    writeFileSync(path.join(folder, 'build/addon.json'), JSON.stringify({ ...record, sources: 'of yesterday' }));
    const { stdout } = runNode(importLoad(folder));
    expect(stdout).toMatch(/AddonNotBuiltError: .*built from other sources.*npm rebuild @verlet\/torch/);
  });

  it('can set variables that libtorch reads, from a worker thread too', ({ skip }) => {
    const entry = JSON.stringify(pathToFileURL(path.join(packageFolder, 'dist/index.js')).href);
    const product = "const half = ones([64, 64], { dtype: 'bfloat16' }); half.matmul(half);";
    const given = { ...process.env, ONEDNN_VERBOSE: '1' };
    if (!runNode(`const { ones } = await import(${entry}); ${product}`, given).stdout.includes('onednn_verbose'))
      skip('this libtorch does not heed ONEDNN_VERBOSE, which the test looks for');
    const build = path.join(packageFolder, 'build');
    const worker = `
      const { createRequire } = require('node:module');
      const { readFileSync } = require('node:fs');
      const folder = ${JSON.stringify(build)};
      const { file } = JSON.parse(readFileSync(folder + '/addon.json', 'utf8'));
      const environment = require(folder + '/' + file.replace('verlet_torch', 'verlet_environment'));
      environment.setEnvironment('ONEDNN_VERBOSE', '1');
      import(${entry}).then(({ ones }) => { ${product} });`;
    const source = `import { Worker } from 'node:worker_threads'; new Worker(${JSON.stringify(worker)}, { eval: true, execArgv: [] });`;
    const { stdout, stderr, signal } = runNode(source);
    expect(stderr).toBe('');
    expect(signal).toBeNull();
    expect(stdout).toContain('onednn_verbose');
  });
});
