import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { findCpuSafety } from './cpu-safety.js';

describe.skipIf(process.arch !== 'x64')('CPU instruction-set probe (x64 only)', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(path.join(tmpdir(), 'verlet-cpu-'));
    vi.stubEnv('XDG_CACHE_HOME', folder);
    vi.stubEnv('ONEDNN_MAX_CPU_ISA', undefined);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Stands in for the compiled probe; each run leaves a line behind. */
  function probe(body: string): string {
    const file = path.join(folder, 'probe.sh');
    writeFileSync(file, `#!/bin/sh\necho run >> ${folder}/runs\n${body}\n`);
    chmodSync(file, 0o755);
    return file;
  }
  const runs = () =>
    existsSync(`${folder}/runs`) ? readFileSync(`${folder}/runs`, 'utf8').trim().split('\n').length : 0;

  it('holds nothing back where all kernels run, and asks once per machine', () => {
    const program = probe('exit 0');
    expect(findCpuSafety(program, '2.13.0').environment).toEqual({});
    expect(findCpuSafety(program, '2.13.0').reason).toBe('all kernels ran');
    expect(runs()).toBe(1);
    findCpuSafety(program, '2.12.0');
    expect(runs()).toBe(2);
  });

  it('steps down until the kernels survive', () => {
    const amxIsFatal = probe('[ -n "$ONEDNN_MAX_CPU_ISA" ] || kill -ILL $$');
    expect(findCpuSafety(amxIsFatal, '2.13.0').environment).toEqual({ ONEDNN_MAX_CPU_ISA: 'AVX512_CORE_BF16' });
    const allButPlainIsFatal = probe('[ "$ONEDNN_MAX_CPU_ISA" = AVX512_CORE ] || kill -ILL $$');
    expect(findCpuSafety(allButPlainIsFatal, '2.12.0').environment).toEqual({ ONEDNN_MAX_CPU_ISA: 'AVX512_CORE' });
  });

  it('counts wrong results as a reason to step down', () => {
    const wrong = probe('[ -n "$ONEDNN_MAX_CPU_ISA" ] || exit 3');
    expect(findCpuSafety(wrong, '2.13.0').environment).toEqual({ ONEDNN_MAX_CPU_ISA: 'AVX512_CORE_BF16' });
  });

  it('says so, and forgets it, when nothing helps', () => {
    const hopeless = probe('kill -ILL $$');
    expect(findCpuSafety(hopeless, '2.13.0').reason).toContain('not to be trusted');
    expect(runs()).toBe(4);
    findCpuSafety(hopeless, '2.13.0');
    expect(runs()).toBe(8);
  });

  it('draws no conclusion from a probe that could not start', () => {
    const broken = probe('echo "error while loading shared libraries" >&2; exit 127');
    const safety = findCpuSafety(broken, '2.13.0');
    expect(safety.environment).toEqual({});
    expect(safety.reason).toContain('shared libraries');
  });

  it('survives a cache file that is not a result', () => {
    const program = probe('exit 0');
    findCpuSafety(program, '2.13.0');
    const [file] = readdirSync(`${folder}/verlet/cpu`);
    writeFileSync(`${folder}/verlet/cpu/${file}`, '{"environment": 3');
    expect(findCpuSafety(program, '2.13.0').environment).toEqual({});
    expect(runs()).toBe(2);
  });

  it('leaves the choice of a person alone', () => {
    vi.stubEnv('ONEDNN_MAX_CPU_ISA', 'AVX2');
    const safety = findCpuSafety(probe('kill -ILL $$'), '2.13.0');
    expect(safety.environment).toEqual({});
    expect(runs()).toBe(0);
  });
});
