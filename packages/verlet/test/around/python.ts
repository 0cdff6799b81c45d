/** The Python peers of these tests, where there are any. */
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export { whyNoPython } from '../models/python.js';

const folder = path.dirname(fileURLToPath(import.meta.url));

/** Hands a job to one of the scripts beside this file and reads its answer. */
export function askPython<T>(script: string, job: unknown): T {
  const answer = execFileSync(process.env.VERLET_PYTHON ?? 'python3', [path.join(folder, script)], {
    input: JSON.stringify(job),
    timeout: 110_000,
    env: { ...process.env, HF_HUB_OFFLINE: '1', TRANSFORMERS_VERBOSITY: 'error' },
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  return JSON.parse(answer.toString('utf8')) as T;
}
