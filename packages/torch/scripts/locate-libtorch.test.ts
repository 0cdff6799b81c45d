import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeLibtorch } from './locate-libtorch.mjs';

const install = fileURLToPath(new URL('./install.mjs', import.meta.url));
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'verlet-locate-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function write(file: string, text = '') {
  mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
  writeFileSync(path.join(folder, file), text);
}

function makeTorch(name: string, versionFile: Record<string, string>, isCuda = false) {
  write(`${name}/lib/libtorch_cpu.so`);
  write(`${name}/lib/libtorch_cpu.dylib`);
  write(`${name}/include/torch/csrc/api/include/torch/torch.h`);
  if (isCuda) write(`${name}/lib/libtorch_cuda.so`);
  for (const [file, text] of Object.entries(versionFile)) write(`${name}/${file}`, text);
  return path.join(folder, name);
}

function makeProgram(name: string, body: string) {
  write(`bin/${name}`, `#!/bin/sh\n${body}\n`);
  chmodSync(path.join(folder, 'bin', name), 0o755);
}

/** The install script on a machine that has just the programs in `bin` and an empty cache. */
function runInstall(env: Record<string, string> = {}) {
  mkdirSync(path.join(folder, 'bin'), { recursive: true });
  const outcome = spawnSync(process.execPath, [install], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { PATH: path.join(folder, 'bin'), XDG_CACHE_HOME: path.join(folder, 'cache'), ...env },
  });
  return { status: outcome.status, output: outcome.stdout + outcome.stderr };
}

describe('describeLibtorch', () => {
  it('reads version and variant of a Python torch, a plain libtorch and a bare one', () => {
    const python = makeTorch('python', { 'version.py': "__version__ = '2.11.0+cu130'\n" }, true);
    expect(describeLibtorch(python, 'test')).toMatchObject({
      version: '2.11.0+cu130',
      variant: 'cuda',
      source: 'test',
    });
    const plain = makeTorch('plain', { 'build-version': '2.13.0+cpu\n' });
    expect(describeLibtorch(plain, 'test')).toMatchObject({ version: '2.13.0+cpu', variant: 'cpu' });
    const header = '#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 12\n#define TORCH_VERSION_PATCH 1\n';
    const bare = makeTorch('bare', { 'include/torch/headeronly/version.h': header });
    expect(describeLibtorch(bare, 'test')).toMatchObject({ version: '2.12.1' });
  });

  it('is undefined without headers or library', () => {
    write('half/lib/libtorch_cpu.so');
    expect(describeLibtorch(path.join(folder, 'half'), 'test')).toBeUndefined();
  });
});

describe('a set-up that cannot go on says one thing and the fix', () => {
  it('a LIBTORCH that is no libtorch', () => {
    const { status, output } = runInstall({ LIBTORCH: folder });
    expect(status).toBe(1);
    expect(output).toContain(`LIBTORCH is '${folder}'`);
    expect(output).toContain('Fix: point LIBTORCH at');
    expect(output).not.toContain('    at ');
  });

  it('an unknown VERLET_TORCH, and one that LIBTORCH contradicts', () => {
    expect(runInstall({ VERLET_TORCH: 'rocm' }).output).toContain("VERLET_TORCH is 'rocm'");
    const LIBTORCH = makeTorch('plain', { 'build-version': '2.13.0+cpu' });
    expect(runInstall({ LIBTORCH, VERLET_TORCH: 'cuda' }).output).toContain('holds a cpu build');
  });

  it('no python3, and a python3 without pip', () => {
    const missing = runInstall();
    expect(missing.status).toBe(1);
    expect(missing.output).toMatch(/no 'python3'.*\n\s+Fix: sudo apt-get install python3 python3-pip/);
    makeProgram('python3', 'exit 1');
    expect(runInstall().output).toMatch(/python3 has no pip.*\n\s+Fix: sudo apt-get install python3-pip/);
  });

  it('no compiler, no cmake, and neither ninja nor make', () => {
    const LIBTORCH = makeTorch('plain', { 'build-version': '2.13.0+cpu' });
    expect(runInstall({ LIBTORCH }).output).toMatch(/no C\+\+ compiler.*\n\s+Fix: sudo apt-get install g\+\+/);
    makeProgram('g++', 'exit 0');
    expect(runInstall({ LIBTORCH }).output).toMatch(/no 'cmake'\n\s+Fix: sudo apt-get install cmake/);
    makeProgram('cmake', 'exit 0');
    expect(runInstall({ LIBTORCH }).output).toMatch(
      /neither 'ninja' nor 'make'\n\s+Fix: sudo apt-get install ninja-build/,
    );
  });

  it('a wheel that is not a CPU build is never unpacked', (context) => {
    if (process.platform !== 'linux' || process.arch !== 'x64')
      context.skip('the CPU build has a name of its own on Linux x64 only');
    // pip "finds" the plain wheel, which is the CUDA build.
    for (const name of ['touch', 'sh']) if (existsSync(`/bin/${name}`)) linkProgram(name);
    makeProgram(
      'python3',
      `case "$*" in
         *find_spec*) echo ;;
         *--version*) echo pip ;;
         *download*) while [ "$1" != --dest ]; do shift; done; touch "$2/torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl" ;;
         *) touch ${folder}/unpacked ;;
       esac`,
    );
    const { status, output } = runInstall();
    expect(status).toBe(1);
    expect(output).toContain('which is not a CPU build');
    expect(existsSync(path.join(folder, 'unpacked'))).toBe(false);
  });
});

function linkProgram(name: string) {
  mkdirSync(path.join(folder, 'bin'), { recursive: true });
  symlinkSync(`/bin/${name}`, path.join(folder, 'bin', name));
}
