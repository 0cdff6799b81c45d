import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import type { ValidationExample } from '../../validation.js';
import type { Metrics } from '../types.js';
import type { WandbOptions, WandbRun } from './index.js';

/** Python, or its `wandb`, is not there. */
export class WandbMissingError extends Error {
  override readonly name = 'WandbMissingError';
}

const MISSING = 3;

/** Reads one JSON object a line on standard input; says `ready` when the run is open. */
const SCRIPT = `
import json, sys
try:
    import wandb
    wandb.init
except (ImportError, AttributeError):
    sys.exit(${MISSING})
out, sys.stdout = sys.stdout, sys.stderr
first = json.loads(sys.stdin.readline())
run = wandb.init(project=first["project"], name=first["name"], id=first["id"], resume="allow", dir=first["dir"], config=first["config"])
out.write("ready\\n"); out.flush()
code = 0
for line in sys.stdin:
    entry = json.loads(line)
    if entry["kind"] == "log":
        run.log({k: float(v) for k, v in entry["data"].items()}, step=entry["step"])
    elif entry["kind"] == "generations":
        table = wandb.Table(columns=entry["columns"], data=entry["rows"])
        run.log({"val/generations": table}, step=entry["step"])
    elif entry["kind"] == "finish":
        code = entry["exit_code"]
run.finish(exit_code=code)
`;

export interface SidecarOptions extends WandbOptions {
  id: string;
  environment: NodeJS.ProcessEnv;
}

export async function startSidecar(options: SidecarOptions): Promise<WandbSidecar> {
  const python = options.python ?? options.environment.VERLET_PYTHON ?? 'python3';
  const child = spawn(python, ['-c', SCRIPT], { env: options.environment, stdio: 'pipe' });
  // A side process that has gone must not take the run along with a broken pipe.
  child.stdin.on('error', () => {});
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said = (said + data.toString()).slice(-2000);
  });
  const { project, runName: name, id, runFolder: dir, config } = options;
  child.stdin.write(`${JSON.stringify({ project, name, id, dir, config })}\n`);
  const seconds = options.startSeconds ?? 90;
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error(`wandb.init gave no answer in ${seconds} s (is there a network?). ${said}`));
    }, seconds * 1000);
    const settle = (action: () => void) => () => {
      clearTimeout(timer);
      action();
    };
    child.once(
      'error',
      settle(() => reject(new WandbMissingError(`there is no ${python} to run wandb with`))),
    );
    child.stdout.once('data', settle(resolve));
    child.once('close', (code) =>
      settle(() =>
        reject(
          code === MISSING
            ? new WandbMissingError(`the Python package wandb is not installed for ${python}`)
            : new Error(`the wandb process ended with code ${code}. ${said}`),
        ),
      )(),
    );
  });
  return new WandbSidecar(child, () => said, options.onTrouble);
}

export class WandbSidecar implements WandbRun {
  private ended = false;

  constructor(
    private readonly child: ChildProcessWithoutNullStreams,
    private readonly lastWords: () => string,
    onTrouble: (text: string) => void,
  ) {
    child.stdout.resume();
    child.once('close', (code) => {
      if (!this.ended || code !== 0)
        onTrouble(`wandb: its process ended with code ${code}; metrics.jsonl has everything. ${this.lastWords()}`);
      this.ended = true;
    });
  }

  log(metrics: Metrics, step: number): void {
    const data = Object.fromEntries(
      Object.entries(metrics).map(([name, value]) => [name, Number.isFinite(value) ? value : String(value)]),
    );
    this.send({ kind: 'log', step, data });
  }

  generations(examples: readonly ValidationExample[], step: number): void {
    const columns = ['step', 'input', 'output', 'score'];
    const rows = examples.map(({ prompt, response, score }) => [step, prompt, response, score]);
    this.send({ kind: 'generations', step, columns, rows });
  }

  async finish(exitCode: number, seconds: number): Promise<void> {
    if (this.ended) return;
    this.send({ kind: 'finish', exit_code: exitCode });
    this.ended = true;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.child.kill('SIGKILL'), seconds * 1000);
      this.child.once('close', () => {
        clearTimeout(timer);
        resolve();
      });
      this.child.stdin.end();
    });
  }

  private send(entry: object): void {
    if (!this.ended && this.child.stdin.writable) this.child.stdin.write(`${JSON.stringify(entry)}\n`);
  }
}
