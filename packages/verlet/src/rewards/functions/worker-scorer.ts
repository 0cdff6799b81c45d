import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { RewardError, type RewardInput, type RewardResult } from '../types.js';
import { createScorer, type Scorer, type ScorerSource } from './scorer.js';
import { WorkQueue } from './work-queue.js';

export interface ScoreWorkerData {
  source: ScorerSource;
  options: Record<string, unknown>;
}

export interface ScoreRequest {
  id: number;
  input: RewardInput;
}

interface ScoreReply {
  id?: number;
  ready?: boolean;
  fatal?: string;
  result?: RewardResult;
  error?: string;
}

export interface WorkerScorerOptions {
  /** Threads; default: one per core, at most 8. */
  workers?: number;
  /** Deadline of one sample. A thread that passes it is ended, even in the middle of an endless loop. */
  timeout_s?: number;
  start_timeout_s?: number;
  /** Input fields to copy into the thread besides texts and conversations. */
  fields?: readonly string[];
}

const copiedFields = [
  'data_source',
  'solution_str',
  'ground_truth',
  'extra_info',
  'prompt',
  'messages',
  'response_ids',
  'response_mask',
  'uid',
];

/** Run from source (tests), the thread needs the TypeScript loader first. */
function startThread(workerData: ScoreWorkerData): Worker {
  const entry = new URL(import.meta.url.endsWith('.ts') ? './score-worker.ts' : './score-worker.js', import.meta.url);
  if (entry.pathname.endsWith('.js')) return new Worker(entry, { workerData });
  const code = `import('tsx/esm/api').then(({ tsImport }) => tsImport(${JSON.stringify(entry.href)}, ${JSON.stringify(import.meta.url)}));`;
  return new Worker(code, { eval: true, workerData });
}

class ScoreThread {
  private worker: Worker | undefined;
  private pending: ((reply: ScoreReply) => void) | undefined;
  private nextId = 0;

  constructor(
    private readonly data: ScoreWorkerData,
    private readonly options: WorkerScorerOptions,
  ) {}

  async score(input: RewardInput): Promise<RewardResult> {
    if (!this.worker) await this.start();
    const id = this.nextId++;
    const reply = this.wait((this.options.timeout_s ?? 300) * 1000, 'the reward function');
    try {
      this.worker!.postMessage({ id, input } satisfies ScoreRequest);
    } catch (error) {
      this.pending?.({ error: `the sample cannot be sent to a thread: ${(error as Error).message}` });
    }
    const { result, error } = await reply;
    if (error !== undefined) throw new RewardError(error);
    return result as RewardResult;
  }

  private async start(): Promise<void> {
    const worker = startThread(this.data);
    this.worker = worker;
    worker.unref();
    worker.on('message', (reply: ScoreReply) => this.pending?.(reply));
    worker.on('error', (error: Error) => this.lost(worker, `the scoring thread failed: ${error.message}`));
    worker.on('exit', (code) => this.lost(worker, `the scoring thread ended with code ${code}`));
    const reply = await this.wait((this.options.start_timeout_s ?? 60) * 1000, 'the start of a scoring thread');
    const problem = reply.fatal ?? reply.error;
    if (problem !== undefined) {
      await this.stop();
      throw new RewardError(problem);
    }
  }

  private wait(timeoutMs: number, what: string): Promise<ScoreReply> {
    return new Promise((resolve) => {
      const finish = (reply: ScoreReply) => {
        clearTimeout(timer);
        this.pending = undefined;
        resolve(reply);
      };
      const timer = setTimeout(() => {
        void this.stop();
        finish({ error: `${what} took longer than ${timeoutMs / 1000} s; its thread was ended` });
      }, timeoutMs);
      this.pending = finish;
    });
  }

  private lost(worker: Worker, reason: string): void {
    if (this.worker !== worker) return;
    this.worker = undefined;
    this.pending?.({ error: reason });
  }

  async stop(): Promise<void> {
    const worker = this.worker;
    this.worker = undefined;
    await worker?.terminate();
  }
}

/** The same reward function in a pool of threads: parallel, and every sample under a deadline that holds. */
export function createWorkerScorer(scorer: Scorer, options: WorkerScorerOptions = {}): Scorer {
  const { source } = scorer;
  if (!source) throw new RewardError('only a reward function from a file, or the built-in scores, can run in threads');
  const size = options.workers ?? Math.min(8, availableParallelism());
  const threads = Array.from({ length: size }, () => new ScoreThread({ source, options: scorer.options }, options));
  const queue = new WorkQueue(threads);
  const names = [...copiedFields, ...(options.fields ?? [])];
  const compute = (input: RewardInput) => {
    const copy = Object.fromEntries(names.filter((name) => name in input).map((name) => [name, input[name]]));
    return queue.run((thread) => thread.score(copy as RewardInput));
  };
  const close = async () => {
    await Promise.all([...threads.map((thread) => thread.stop()), scorer.close()]);
  };
  return createScorer({ type: 'sequential', compute, options: scorer.options, source, close });
}
