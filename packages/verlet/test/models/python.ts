/** The Python peers, where there are any. */
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const python = process.env.VERLET_PYTHON ?? 'python3';

/** Null when Python has the packages, else why the comparison is skipped. */
export function whyNoPython(...packages: string[]): string | null {
  const probe = spawnSync(python, ['-c', `import ${packages.join(', ')}`], { timeout: 60_000, encoding: 'utf8' });
  if (probe.error) return `${python} cannot be run (${probe.error.message}); set VERLET_PYTHON`;
  return probe.status === 0 ? null : `${python} has no ${packages.join(' and ')}; set VERLET_PYTHON to one that has`;
}

export interface LogitsJob {
  folder: string;
  adapter?: string;
  input_ids: number[][];
}

/** One list of rows of flat logits per job, as transformers computes them. */
export function logitsByTransformers(jobs: readonly LogitsJob[]): number[][][] {
  const script = path.join(path.dirname(fileURLToPath(import.meta.url)), 'logits-of.py');
  const answer = execFileSync(python, [script], {
    input: JSON.stringify(jobs),
    timeout: 110_000,
    maxBuffer: 1 << 28,
    env: { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_VERBOSITY: 'error' },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  return JSON.parse(answer.toString('utf8')) as number[][][];
}
