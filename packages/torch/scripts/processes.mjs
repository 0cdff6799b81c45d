// Child processes with deadlines, and progress lines while they work.
import { spawn, spawnSync } from 'node:child_process';

/**
 * A short command whose output is wanted. Never throws for a failing command; `missing` tells that there is no such program.
 * @returns {{ ok: boolean, missing: boolean, stdout: string, stderr: string }}
 */
export function ask(command, args, { timeoutMs = 60_000, env = process.env } = {}) {
  const result = spawnSync(command, args, { encoding: 'utf8', timeout: timeoutMs, env, maxBuffer: 64 << 20 });
  return {
    ok: result.status === 0,
    missing: result.error?.code === 'ENOENT',
    stdout: result.stdout ?? '',
    stderr:
      (result.stderr ?? '') + (result.error?.code === 'ETIMEDOUT' ? `\n(stopped after ${timeoutMs / 1000} s)` : ''),
  };
}

/**
 * A long command. `onLine` sees every output line; `progress` is asked for a status text every ten seconds.
 * Resolves to the exit status and the whole output; the process group is killed at the deadline.
 */
export function work(command, args, { timeoutMs, env = process.env, cwd, onLine, progress }) {
  return new Promise((resolve, reject) => {
    const started = Date.now();
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
    let output = '';
    let pending = '';
    const take = (chunk) => {
      output += chunk;
      pending += chunk;
      const lines = pending.split('\n');
      pending = lines.pop();
      if (onLine) for (const line of lines) onLine(line);
    };
    child.stdout.setEncoding('utf8').on('data', take);
    child.stderr.setEncoding('utf8').on('data', take);
    const ticker = progress
      ? setInterval(() => say(`${progress()} (${Math.round((Date.now() - started) / 1000)} s)`), 10_000)
      : undefined;
    const deadline = setTimeout(() => {
      output += `\nstopped: no end after ${timeoutMs / 1000} s`;
      killGroup(child.pid);
    }, timeoutMs);
    const stop = (signal) => {
      killGroup(child.pid);
      process.exit(signal === 'SIGINT' ? 130 : 143);
    };
    process.once('SIGINT', stop);
    process.once('SIGTERM', stop);
    const finish = () => {
      clearInterval(ticker);
      clearTimeout(deadline);
      process.off('SIGINT', stop);
      process.off('SIGTERM', stop);
    };
    child.on('error', (error) => {
      finish();
      reject(error);
    });
    child.on('close', (status) => {
      finish();
      resolve({ ok: status === 0, status, output });
    });
  });
}

function killGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // Already gone.
  }
}

export function say(line) {
  process.stdout.write(`@verlet/torch: ${line}\n`);
}
