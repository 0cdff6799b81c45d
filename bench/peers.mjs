// Runs a Python peer and gives what it printed as JSON on its last line; null with a note when Python lacks a package.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const python = process.env.VERLET_PYTHON ?? 'python3';

/** What a peer should find: not the OpenMP setting that our own addon makes for its process. */
export function peerEnvironment() {
  const { GOMP_SPINCOUNT: _, ...environment } = process.env;
  return environment;
}

export function runPeer(script, settings, { timeoutMs = 500_000 } = {}) {
  const file = fileURLToPath(new URL(`peers/${script}`, import.meta.url));
  const outcome = spawnSync(python, [file, JSON.stringify(settings)], {
    encoding: 'utf8',
    timeout: timeoutMs,
    maxBuffer: 1 << 26,
    env: peerEnvironment(),
  });
  const last = outcome.stdout?.trim().split('\n').at(-1);
  if (outcome.status === 0 && last) return JSON.parse(last);
  const said = outcome.error?.message ?? outcome.stderr?.trim().split('\n').slice(-3).join(' | ');
  console.log(`no peer: ${python} ${script}: ${said}`);
  return null;
}
