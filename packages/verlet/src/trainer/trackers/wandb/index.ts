/**
 * Weights & Biases. Its own Python package, when one can import it, runs as a side process that reads JSON lines; without it
 * the lines go to the server over HTTP when WANDB_API_KEY is set. There is no documented write API, so HTTP is best effort.
 */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import type { ValidationExample } from '../../validation.js';
import { KeptRun } from '../kept-run.js';
import type { Metrics, Tracker } from '../types.js';
import { WandbHttp } from './http-run.js';
import { startSidecar, WandbMissingError, type WandbSidecar } from './sidecar.js';

export interface WandbOptions {
  project: string;
  runName: string;
  runFolder: string;
  config: unknown;
  onTrouble: (text: string) => void;
  environment?: NodeJS.ProcessEnv;
  python?: string;
  startSeconds?: number;
  finishSeconds?: number;
  retrySeconds?: { first: number; longest: number };
}

/** Where the entries of a run go. */
export interface WandbRun {
  log(metrics: Metrics, step: number): void;
  generations(examples: readonly ValidationExample[], step: number): void;
  finish(exitCode: number, seconds: number): Promise<void>;
}

export class WandbTracker implements Tracker {
  readonly name = 'wandb';
  private run: WandbRun | null = null;
  private readonly early: ((run: WandbRun) => void)[] = [];
  private opening: Promise<void> | null = null;
  private gaveUp = false;

  constructor(private readonly options: WandbOptions) {}

  /** Opens the run in the background: importing `wandb` takes seconds. */
  start(step: number): void {
    const kept = new KeptRun<{ id: string }>(path.join(this.options.runFolder, 'wandb_run.json'));
    const id = (step > 0 ? kept.read()?.id : undefined) ?? randomBytes(4).toString('hex');
    kept.write({ id });
    this.opening = this.open(id).catch((error: Error) => {
      this.gaveUp = true;
      this.early.length = 0;
      this.options.onTrouble(`wandb: ${error.message}; metrics.jsonl in the run folder has everything`);
    });
  }

  log(metrics: Metrics, step: number): void {
    this.use((run) => run.log(metrics, step));
  }

  generations(examples: readonly ValidationExample[], step: number): void {
    this.use((run) => run.generations(examples, step));
  }

  async finish(outcome: 'finished' | 'interrupted' | 'failed' = 'finished'): Promise<void> {
    await this.opening;
    await this.run?.finish(outcome === 'failed' ? 1 : 0, this.options.finishSeconds ?? 45);
  }

  private use(action: (run: WandbRun) => void): void {
    if (this.run) action(this.run);
    else if (!this.gaveUp) this.early.push(action);
  }

  private async open(id: string): Promise<void> {
    const environment = this.options.environment ?? process.env;
    let run: WandbRun;
    try {
      run = (await startSidecar({ ...this.options, id, environment })) satisfies WandbSidecar;
    } catch (error) {
      const key = environment.WANDB_API_KEY;
      if (!(error instanceof WandbMissingError)) throw error;
      if (!key || environment.WANDB_MODE === 'offline')
        throw new Error(
          `${error.message} and ${key ? 'WANDB_MODE is offline' : 'WANDB_API_KEY is not set'}, so nothing is sent`,
        );
      run = new WandbHttp({
        ...this.options,
        id,
        key,
        baseUrl: environment.WANDB_BASE_URL,
        entity: environment.WANDB_ENTITY,
      });
    }
    this.run = run;
    for (const action of this.early.splice(0)) action(run);
  }
}
