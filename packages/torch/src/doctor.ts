/**
 * What a person wants to know about this machine before asking why something does not work.
 * Nothing here needs a built addon: a broken set-up is what it is for.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statfsSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { cacheFolder } from './cpu-safety.js';

export interface Finding {
  section: string;
  name: string;
  value: string;
  /** `problem`: something will not work. `note`: it works, but could be better. */
  state: 'ok' | 'note' | 'problem';
  /** What to do about it. */
  advice?: string;
}

const GIB = 2 ** 30;
const DEADLINE_MS = 20_000;

export async function examine(): Promise<Finding[]> {
  const gpus = listGpus();
  return [
    ...examineNode(),
    ...(await examineLibtorch(gpus)),
    ...examineCpu(),
    ...examineGpus(gpus),
    ...examineTools(),
    ...examineCache(),
  ];
}

/** Findings as the text that `doctor` prints: one line each, advice below. */
export function formatFindings(findings: readonly Finding[]): string {
  const marks = { ok: 'ok  ', note: 'note', problem: 'FAIL' };
  const width = Math.max(...findings.map((finding) => finding.name.length));
  const lines: string[] = [];
  let section = '';
  for (const finding of findings) {
    if (finding.section !== section) lines.push('', finding.section);
    section = finding.section;
    lines.push(`  ${marks[finding.state]}  ${finding.name.padEnd(width)}  ${finding.value}`);
    if (finding.advice) lines.push(`        ${' '.repeat(width)}→ ${finding.advice}`);
  }
  const problems = findings.filter((finding) => finding.state === 'problem').length;
  lines.push('', problems === 0 ? 'No problems found.' : `${problems} problem${problems === 1 ? '' : 's'} found.`);
  return lines.join('\n').trimStart();
}

function examineNode(): Finding[] {
  const section = 'Node.js';
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const supported = major > 20 || (major === 20 && minor >= 19);
  return [
    {
      section,
      name: 'version',
      value: `${process.version} (${process.platform} ${process.arch})`,
      state: supported ? 'ok' : 'problem',
      advice: supported ? undefined : 'install Node.js 20.19 or later',
    },
  ];
}

async function examineLibtorch(gpus: readonly string[]): Promise<Finding[]> {
  const section = 'libtorch';
  try {
    const { buildRecord, cpuSafety, native } = await import('./load.js');
    const { buildInfo, threads } = native as { buildInfo(): Record<string, unknown>; threads(): number };
    const info = buildInfo();
    const held = Object.entries(cpuSafety.environment).map(([name, value]) => `${name}=${value}`);
    const unused = gpus.length > 0 && buildRecord.variant === 'cpu';
    const findings: Finding[] = [
      {
        section,
        name: 'version',
        value: `${buildRecord.version} (${buildRecord.variant})`,
        state: unused ? 'note' : 'ok',
        advice: unused
          ? 'there is a GPU, but this build has no CUDA: VERLET_TORCH=cuda npm rebuild @verlet/torch'
          : undefined,
      },
      { section, name: 'folder', value: `${buildRecord.libtorch} (${buildRecord.source})`, state: 'ok' },
      { section, name: 'CPU kernels', value: String(info.cpuCapability), state: 'ok' },
      {
        section,
        name: 'instruction cap',
        value: held.length ? `${held.join(' ')} (${cpuSafety.reason})` : `none (${cpuSafety.reason})`,
        state: held.length ? 'note' : 'ok',
        advice: held.length
          ? 'bf16 on the CPU is slower than it could be; other (virtual) machines may not need the cap'
          : undefined,
      },
      threadsFinding(section, threads()),
      glooFinding(section, native),
    ];
    if (buildRecord.variant === 'cuda') findings.push(...cudaFindings(section, buildRecord, info));
    return findings;
  } catch (error) {
    const [value = '', advice] = (error instanceof Error ? error.message : String(error)).split(' Run: ');
    return [{ section, name: 'addon', value, state: 'problem', advice: advice ?? 'npm rebuild @verlet/torch' }];
  }
}

function threadsFinding(section: string, threads: number): Finding {
  const cores = availableParallelism();
  const asked = process.env.OMP_NUM_THREADS ? `, OMP_NUM_THREADS=${process.env.OMP_NUM_THREADS}` : '';
  return {
    section,
    name: 'threads',
    value: `${threads} (${cores} cores${asked})`,
    state: threads > cores ? 'note' : 'ok',
    advice: threads > cores ? `more threads than cores slow everything down: set OMP_NUM_THREADS=${cores}` : undefined,
  };
}

function glooFinding(section: string, native: Record<string, unknown>): Finding {
  const available = hasOperator(native, 'c10d::allreduce_');
  return available
    ? { section, name: 'Gloo', value: 'available', state: 'ok' }
    : {
        section,
        name: 'Gloo',
        value: 'this libtorch was built without c10d',
        state: 'note',
        advice: 'use a libtorch from a PyTorch wheel',
      };
}

function hasOperator(native: Record<string, unknown>, name: string): boolean {
  try {
    (native as { resolve(name: string): unknown }).resolve(name);
    return true;
  } catch {
    return false;
  }
}

function cudaFindings(
  section: string,
  record: { cudaCompiledIn: boolean; ncclCompiledIn: boolean },
  info: Record<string, unknown>,
): Finding[] {
  const devices = Number(info.cudaDevices);
  return [
    {
      section,
      name: 'CUDA devices',
      value: String(devices),
      state: devices > 0 ? 'ok' : 'note',
      advice: devices > 0 ? undefined : 'libtorch sees no GPU: check nvidia-smi and CUDA_VISIBLE_DEVICES',
    },
    {
      section,
      name: 'CUDA parts',
      value: record.cudaCompiledIn
        ? 'compiled in (graphs, events, memory statistics)'
        : 'left out: no CUDA headers at build time',
      state: record.cudaCompiledIn ? 'ok' : 'note',
      advice: record.cudaCompiledIn
        ? undefined
        : 'install the CUDA toolkit or set CUDA_HOME, then: npm rebuild @verlet/torch',
    },
    {
      section,
      name: 'NCCL',
      value: record.ncclCompiledIn ? 'available' : 'left out: nccl.h was not found at build time',
      state: record.ncclCompiledIn ? 'ok' : 'note',
      advice: record.ncclCompiledIn
        ? undefined
        : 'pip install nvidia-nccl-cu13 beside torch, then: npm rebuild @verlet/torch',
    },
  ];
}

function examineCpu(): Finding[] {
  const section = 'Processor';
  const text = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8') : '';
  const flags = new Set((/^flags\s*:\s*(.*)$/m.exec(text)?.[1] ?? '').split(' '));
  const telling = ['avx2', 'avx512f', 'avx512_bf16', 'avx512_fp16', 'amx_tile', 'amx_bf16'].filter((flag) =>
    flags.has(flag),
  );
  return [
    { section, name: 'model', value: `${cpus()[0]?.model ?? 'unknown'}, ${availableParallelism()} cores`, state: 'ok' },
    { section, name: 'features', value: telling.join(' ') || 'none of AVX2, AVX-512, AMX', state: 'ok' },
    { section, name: 'memory', value: `${(totalmem() / GIB).toFixed(1)} GiB`, state: 'ok' },
  ];
}

function listGpus(): string[] {
  const answer = ask('nvidia-smi', ['--query-gpu=name,memory.total,driver_version', '--format=csv,noheader']);
  return answer === undefined ? [] : answer.split('\n').filter((line) => line.includes(','));
}

function examineGpus(gpus: readonly string[]): Finding[] {
  const section = 'NVIDIA GPUs';
  if (gpus.length === 0)
    return [{ section, name: 'nvidia-smi', value: 'no GPU found; everything runs on the CPU', state: 'ok' }];
  return gpus.map((value, index) => ({ section, name: `GPU ${index}`, value, state: 'ok' }));
}

/** Only a rebuild needs these, so a missing one is no more than a note. */
function examineTools(): Finding[] {
  const section = 'For a rebuild';
  const python = process.env.VERLET_PYTHON || 'python3';
  const tools: [name: string, command: string, args: string[], fix: string][] = [
    ['python', python, ['--version'], 'sudo apt-get install python3'],
    ['pip', python, ['-m', 'pip', '--version'], 'sudo apt-get install python3-pip'],
    ['compiler', process.env.CXX || 'g++', ['--version'], 'sudo apt-get install g++'],
    ['cmake', 'cmake', ['--version'], 'sudo apt-get install cmake'],
  ];
  return tools.map(([name, command, args, fix]) => {
    const line = ask(command, args)?.split('\n')[0];
    return line === undefined
      ? { section, name, value: `'${command}' is missing`, state: 'note', advice: fix }
      : { section, name, value: line, state: 'ok' };
  });
}

function examineCache(): Finding[] {
  const section = 'Per-user cache';
  const folder = cacheFolder();
  if (!existsSync(folder)) return [{ section, name: 'folder', value: `${folder} (not there yet)`, state: 'ok' }];
  const { bavail, bsize } = statfsSync(folder);
  const free = (bavail * bsize) / GIB;
  return [
    {
      section,
      name: 'folder',
      value: `${folder} (${free.toFixed(1)} GiB free on its disk)`,
      state: free < 2 ? 'note' : 'ok',
      advice:
        free < 2
          ? 'libtorch alone takes 0.5 GiB (CPU) to 8 GiB (CUDA): free some space or set XDG_CACHE_HOME'
          : undefined,
    },
  ];
}

function ask(command: string, args: string[]): string | undefined {
  const answer = spawnSync(command, args, { encoding: 'utf8', timeout: DEADLINE_MS });
  return answer.status === 0 ? answer.stdout.trim() : undefined;
}
