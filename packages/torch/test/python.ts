/** Python peers that tests compare with. Never needed at run time; a test that wants them says so and skips without. */
import { spawnSync } from 'node:child_process';

const python = process.env.VERLET_PYTHON ?? 'python3';
const known = new Map<string, string | null>();

/** Null when Python can import all of these, else the reason to print with the skipped test. */
export function missingPython(...modules: string[]): string | null {
  const key = modules.join();
  if (!known.has(key)) {
    const outcome = spawnSync(python, ['-c', `import ${modules.join(', ')}`], { encoding: 'utf8', timeout: 100_000 });
    const said = outcome.error?.message ?? outcome.stderr.trim().split('\n').at(-1);
    known.set(key, outcome.status === 0 ? null : `${python} cannot import ${modules.join(', ')}: ${said}`);
  }
  return known.get(key)!;
}

/** Runs a script and gives what it printed. */
export function runPython(script: string, ...args: string[]): string {
  const outcome = spawnSync(python, ['-c', script, ...args], { encoding: 'utf8', timeout: 100_000 });
  if (outcome.status !== 0) throw new Error(`${python} failed: ${outcome.error?.message ?? outcome.stderr}`);
  return outcome.stdout;
}
