import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { type Language, type Limits, SandboxFailure, type SandboxResult } from './types.js';

/** One job of a box. `script` runs to its end; `serve` and `check` also talk over the wire while they run. */
export interface Job {
  mode: 'script' | 'serve' | 'check';
  language: Language;
  code: string;
  stdin?: string;
  limits: Limits;
}

export interface BoxCommand {
  command: string;
  args: string[];
  env?: Record<string, string>;
  uid?: number;
  gid?: number;
  startMs: number;
}

// Room for both outputs at their caps after JSON escaping, and for wire lines.
const longestFrame = 64 << 20;
interface Running {
  nonce: string;
  finish(result: SandboxResult, isDirty: boolean): void;
  onWire: (line: string) => void;
}

/** Boxes whose process is alive. Those of bubblewrap die with this process anyhow; where that is missing this ends them. */
const living = new Set<Box>();
process.on('exit', () => {
  for (const box of living) box.kill();
});

/**
 * One child process that runs untrusted programs one after another and reports over its stdout, in JSON lines. Every report
 * repeats the nonce of its job; anything else on that channel is treated as an attack and ends the box.
 */
export class Box {
  jobsDone = 0;
  /** False after a kill, a fault or a program that left something behind: the pool then replaces the box. */
  isUsable = true;
  /** Ended by itself while a program ran, or before it could: the result says `killed`, but whose fault it was is not known. */
  wasLost = false;
  readonly #child: ChildProcess;
  readonly #graceMs: number;
  readonly #exited: Promise<void>;
  #running: Running | undefined;
  #pieces: Buffer[] = [];
  #pieceBytes = 0;
  #complaints = '';
  #onReady: (() => void) | undefined;

  private constructor(command: BoxCommand, graceMs: number) {
    this.#graceMs = graceMs;
    this.#child = spawn(command.command, command.args, {
      env: command.env ?? {},
      cwd: '/',
      uid: command.uid,
      gid: command.gid,
      stdio: ['pipe', 'pipe', 'pipe'],
      // Its own process group, so that one signal ends the box with everything it started.
      detached: true,
    });
    // An idle box must not keep the trainer from ending; a running job holds the event loop with its deadline timer.
    this.#child.unref();
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr])
      (stream as Socket | null)?.unref();
    living.add(this);
    this.#exited = new Promise((resolve) => {
      this.#child.once('exit', () => resolve());
      this.#child.once('error', () => resolve());
    });
    this.#child.on('error', (error) => this.#fail(error.message));
    this.#child.once('exit', () => living.delete(this));
    this.#child.on('exit', (code, signal) => this.#fail(`exited with ${signal ?? code}`));
    this.#child.stdin?.on('error', () => {});
    this.#child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk));
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#complaints = (this.#complaints + chunk.toString()).slice(-2_000);
    });
  }

  /** `graceMs`: a box that keeps the time limit itself is stopped from outside only that long after it; 0 for one that does not. */
  static async start(command: BoxCommand, options: { graceMs: number }): Promise<Box> {
    const box = new Box(command, options.graceMs);
    let timer: NodeJS.Timeout | undefined;
    try {
      await Promise.race([
        new Promise<void>((resolve) => {
          box.#onReady = resolve;
        }),
        box.#exited.then(() => {
          throw new SandboxFailure(
            `${command.command} ended before it was ready: ${box.#complaints.trim() || 'no message'}`,
          );
        }),
        new Promise((_, reject) => {
          const late = `${command.command} was not ready after ${command.startMs} ms: ${box.#complaints.trim()}`;
          timer = setTimeout(() => reject(new SandboxFailure(late)), command.startMs);
        }),
      ]);
      return box;
    } catch (error) {
      await box.close();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  execute(job: Job, onWire: (line: string) => void = () => {}, signal?: AbortSignal): Promise<SandboxResult> {
    if (this.#running) throw new SandboxFailure('a box runs one job at a time');
    const nonce = randomBytes(16).toString('hex');
    const began = performance.now();
    return new Promise((resolve) => {
      const stop = (status: 'timeout' | 'killed', why: string) => {
        this.kill();
        finish({ status, stdout: '', stderr: why, exitCode: null, durationMs: performance.now() - began }, true);
      };
      const allowed = job.limits.timeoutMs + this.#graceMs;
      const timer = setTimeout(() => stop('timeout', `stopped after ${job.limits.timeoutMs} ms`), allowed);
      const onAbort = () => stop('killed', 'stopped by the caller');
      const finish = (result: SandboxResult, isDirty: boolean) => {
        if (this.#running?.nonce !== nonce) return;
        this.#running = undefined;
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
        this.jobsDone += 1;
        if (isDirty) this.isUsable = false;
        resolve(result);
      };
      this.#running = { nonce, finish, onWire };
      if (signal?.aborted) return onAbort();
      signal?.addEventListener('abort', onAbort, { once: true });
      if (!this.isUsable) return this.#fail('it was gone already');
      this.#write({ ...job, nonce });
    });
  }

  /** A line for the running job. */
  reply(line: string): void {
    if (this.#running) this.#write({ reply: line });
  }

  /** No more lines will come: a serving program ends. */
  endWire(): void {
    if (this.#running) this.#write({ end: true });
  }

  /** Ends the box and everything in it; waits (at most 5 s) until the process is gone. */
  async close(): Promise<void> {
    this.isUsable = false;
    this.kill();
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([this.#exited, new Promise((resolve) => (timer = setTimeout(resolve, 5_000)))]);
    clearTimeout(timer);
  }

  /** Ends the box at once, without waiting. */
  kill(): void {
    this.isUsable = false;
    const { pid } = this.#child;
    if (pid === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch {
      this.#child.kill('SIGKILL');
    }
  }

  #write(message: object): void {
    this.#child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  #fail(why: string): void {
    if (this.#running) this.wasLost = true;
    this.isUsable = false;
    const stderr = `the program took its box down (${why}) ${this.#complaints}`.trim();
    this.#running?.finish({ status: 'killed', stdout: '', stderr, exitCode: null, durationMs: 0 }, true);
  }

  #read(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      this.#pieces.push(rest.subarray(0, end));
      const line = Buffer.concat(this.#pieces).toString('utf8');
      this.#pieces = [];
      this.#pieceBytes = 0;
      rest = rest.subarray(end + 1);
      this.#receive(line);
    }
    if (rest.length > 0) this.#pieces.push(rest);
    this.#pieceBytes += rest.length;
    if (this.#pieceBytes > longestFrame) {
      this.kill();
      this.#fail('report too long');
    }
  }

  #receive(line: string): void {
    let frame: { ready?: boolean; nonce?: string; wire?: string; result?: SandboxResult; dirty?: boolean };
    try {
      frame = JSON.parse(line);
    } catch {
      frame = {};
    }
    if (frame.ready && this.#onReady) {
      this.#onReady();
      this.#onReady = undefined;
      return;
    }
    const running = this.#running;
    if (!running || frame.nonce !== running.nonce) {
      this.kill();
      this.#fail('a report without the right nonce');
      return;
    }
    if (frame.result) running.finish(frame.result, frame.dirty === true);
    else if (typeof frame.wire === 'string') running.onWire(frame.wire);
  }
}
