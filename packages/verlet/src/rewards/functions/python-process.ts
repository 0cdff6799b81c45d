import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { RewardError } from '../types.js';
import { pythonRunner } from './python-runner.js';

interface Reply {
  id?: number;
  ready?: boolean;
  type?: 'batch' | 'sequential';
  form?: string;
  wants?: string[];
  results?: unknown[];
  error?: string;
  fatal?: string;
  trace?: string;
}

export interface PythonProcessOptions {
  /** The interpreter; `VERLET_PYTHON`, else `python3`. */
  python?: string;
  /** Deadline of the start: importing a reward file may import torch. */
  start_timeout_s?: number;
}

/** What the Python file turned out to be. */
export interface PythonFunction {
  readonly type: 'batch' | 'sequential';
  readonly form: string;
  /** Parameter names of the function; only fields it names are sent. */
  readonly wants: readonly string[];
}

/** One supervised Python process: one request at a time, killed with its children when a deadline passes. */
export class PythonProcess {
  private child: ChildProcessWithoutNullStreams | undefined;
  private pending: { resolve: (reply: Reply) => void; reject: (error: Error) => void } | undefined;
  private stderrTail = '';
  private nextId = 0;
  description: PythonFunction | undefined;

  constructor(
    private readonly path: string,
    private readonly name: string,
    private readonly options: PythonProcessOptions = {},
  ) {}

  /** Starts the process unless it runs. After a crash or a kill the next call starts a fresh one. */
  async start(): Promise<PythonFunction> {
    if (this.child && this.description) return this.description;
    const python = this.options.python ?? process.env.VERLET_PYTHON ?? 'python3';
    // Its own process group, so that a kill reaches what the reward function has started.
    const child = spawn(python, ['-u', '-c', pythonRunner, this.path, this.name], { detached: true, stdio: 'pipe' });
    this.child = child;
    this.stderrTail = '';
    child.stderr.on('data', (chunk: Buffer) => {
      this.stderrTail = (this.stderrTail + chunk.toString()).slice(-4_000);
    });
    child.stdin.on('error', () => {}); // a broken pipe shows up as the exit below
    createInterface({ input: child.stdout }).on('line', (line) => this.receive(line));
    child.on('error', (error) =>
      this.end(child, `cannot start ${python}: ${error.message}. Set VERLET_PYTHON to a Python interpreter`),
    );
    child.on('close', (code, signal) => this.end(child, `the Python process ended (${signal ?? `exit code ${code}`})`));
    const reply = await this.wait((this.options.start_timeout_s ?? 120) * 1000, `starting ${this.path}`);
    if (!reply.ready) throw new RewardError(`${this.path} cannot be loaded: ${reply.fatal}\n${reply.trace ?? ''}`);
    this.description = { type: reply.type!, form: reply.form!, wants: reply.wants! };
    return this.description;
  }

  async call(inputs: readonly unknown[], kwargs: Record<string, unknown>, timeoutMs: number): Promise<unknown[]> {
    await this.start();
    const id = this.nextId++;
    this.child!.stdin.write(`${JSON.stringify({ id, inputs, kwargs })}\n`);
    const reply = await this.wait(timeoutMs, `${this.name} of ${this.path}`);
    if (reply.error !== undefined)
      throw new RewardError(`${this.name} of ${this.path} raised ${reply.error}\n${reply.trace ?? ''}`);
    if (reply.id !== id || !reply.results)
      throw new RewardError(`${this.path}: ${reply.fatal ?? 'an answer that was not asked for'}`);
    return reply.results;
  }

  private wait(timeoutMs: number, what: string): Promise<Reply> {
    return new Promise<Reply>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.kill();
        settle(() => reject(new RewardError(`${what} took longer than ${timeoutMs / 1000} s; its process was killed`)));
      }, timeoutMs);
      const settle = (finish: () => void) => {
        clearTimeout(timer);
        this.pending = undefined;
        finish();
      };
      this.pending = {
        resolve: (reply) => settle(() => resolve(reply)),
        reject: (error) => settle(() => reject(error)),
      };
    });
  }

  private receive(line: string): void {
    try {
      this.pending?.resolve(JSON.parse(line) as Reply);
    } catch {
      this.pending?.reject(
        new RewardError(`${this.path}: the process sent something that is not JSON: ${line.slice(0, 200)}`),
      );
    }
  }

  private end(child: ChildProcessWithoutNullStreams, reason: string): void {
    if (this.child !== child) return;
    this.child = undefined;
    const tail = this.stderrTail.trim();
    this.pending?.reject(
      new RewardError(`${reason} while running ${this.path}${tail ? `; its last words: ${tail.slice(-500)}` : ''}`),
    );
  }

  /** SIGKILL to the whole process group. */
  kill(): void {
    const child = this.child;
    this.child = undefined;
    if (child?.pid === undefined) return;
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {
      child.kill('SIGKILL'); // no group of its own, or gone already
    }
  }
}
