/** MLflow's REST API 2.0: one run, metrics in batches, parameters once. */
import path from 'node:path';
import { Delivery, RefusedError } from './delivery.js';
import { requestJson } from './http.js';
import { KeptRun } from './kept-run.js';
import type { Metrics, Tracker } from './types.js';

/** What MLflow takes in one request. */
const MAX_METRICS = 1000;
const MAX_PARAMS = 100;
const MAX_PARAM_LENGTH = 500;
const MAX_NAME_LENGTH = 250;

export interface MlflowOptions {
  /** Like http://127.0.0.1:5000. */
  trackingUri: string;
  experiment: string;
  runName: string;
  runFolder: string;
  config: unknown;
  onTrouble: (text: string) => void;
  environment?: NodeJS.ProcessEnv;
  finishSeconds?: number;
  retrySeconds?: { first: number; longest: number };
}

interface KeptMlflowRun {
  trackingUri: string;
  runId: string;
  lastStep: number;
}

interface MlflowMetric {
  key: string;
  value: number | string;
  timestamp: number;
  step: number;
}

/** MLflow's names have letters, digits and `_ - . / : space`; verl writes `@` as `_at_`. */
export function mlflowName(name: string): string {
  return name
    .replaceAll('@', '_at_')
    .replace(/[^\w\-./ ]/g, '_')
    .slice(0, MAX_NAME_LENGTH);
}

/** A nested configuration as dotted names and short texts. */
export function flatParams(value: unknown, prefix = ''): { key: string; value: string }[] {
  if (value !== null && typeof value === 'object' && !Array.isArray(value))
    return Object.entries(value).flatMap(([key, inner]) => flatParams(inner, prefix ? `${prefix}.${key}` : key));
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
  return [{ key: mlflowName(prefix), value: text.slice(0, MAX_PARAM_LENGTH) }];
}

export class MlflowTracker implements Tracker {
  readonly name = 'mlflow';
  private readonly kept: KeptRun<KeptMlflowRun>;
  private readonly delivery: Delivery<MlflowMetric>;
  private runId: string | null = null;
  private resumed: KeptMlflowRun | null = null;
  private lastStep = -1;

  constructor(private readonly options: MlflowOptions) {
    this.kept = new KeptRun(path.join(options.runFolder, 'mlflow_run.json'));
    this.delivery = new Delivery({
      name: this.name,
      batchSize: MAX_METRICS,
      capacity: 1_000_000,
      retrySeconds: options.retrySeconds,
      onTrouble: options.onTrouble,
      send: (metrics) => this.send(metrics),
    });
  }

  start(step: number): void {
    const kept = this.kept.read();
    this.resumed = step > 0 && kept?.trackingUri === this.options.trackingUri ? kept : null;
    // Metrics append: a step that the server has already must not be sent a second time.
    this.lastStep = this.resumed?.lastStep ?? -1;
  }

  log(metrics: Metrics, step: number): void {
    if (step <= this.lastStep) return;
    this.lastStep = step;
    const timestamp = Date.now();
    this.delivery.add(
      ...Object.entries(metrics).map(([name, value]) => ({
        key: mlflowName(name),
        // The JSON form of protocol buffers writes these as words.
        value: Number.isFinite(value) ? value : String(value),
        timestamp,
        step,
      })),
    );
  }

  async finish(outcome: 'finished' | 'interrupted' | 'failed' = 'finished'): Promise<void> {
    await this.delivery.finish(this.options.finishSeconds ?? 20);
    if (!this.runId) return;
    const status = { finished: 'FINISHED', interrupted: 'KILLED', failed: 'FAILED' }[outcome];
    await this.call('runs/update', { run_id: this.runId, status, end_time: Date.now() });
  }

  private async send(metrics: readonly MlflowMetric[]): Promise<void> {
    this.runId ??= await this.openRun();
    await this.call('runs/log-batch', { run_id: this.runId, metrics });
    this.kept.write({
      trackingUri: this.options.trackingUri,
      runId: this.runId,
      lastStep: metrics.at(-1)!.step,
    });
  }

  private async openRun(): Promise<string> {
    if (this.resumed) {
      await this.call('runs/update', { run_id: this.resumed.runId, status: 'RUNNING' });
      return this.resumed.runId;
    }
    const { run } = await this.call<{ run: { info: { run_id: string } } }>('runs/create', {
      experiment_id: await this.experimentId(),
      run_name: this.options.runName,
      start_time: Date.now(),
      tags: [{ key: 'mlflow.source.name', value: 'verlet' }],
    });
    const params = flatParams(this.options.config);
    for (let k = 0; k < params.length; k += MAX_PARAMS)
      await this.call('runs/log-batch', { run_id: run.info.run_id, params: params.slice(k, k + MAX_PARAMS) });
    return run.info.run_id;
  }

  private async experimentId(): Promise<string> {
    const name = this.options.experiment;
    try {
      const path = `experiments/get-by-name?experiment_name=${encodeURIComponent(name)}`;
      return (await this.call<{ experiment: { experiment_id: string } }>(path)).experiment.experiment_id;
    } catch (error) {
      if (!(error instanceof RefusedError) || !error.message.includes('RESOURCE_DOES_NOT_EXIST')) throw error;
      return (await this.call<{ experiment_id: string }>('experiments/create', { name })).experiment_id;
    }
  }

  private call<T = unknown>(path: string, body?: unknown): Promise<T> {
    return requestJson<T>({
      url: `${this.options.trackingUri.replace(/\/+$/, '')}/api/2.0/mlflow/${path}`,
      method: body === undefined ? 'GET' : 'POST',
      headers: this.authorization(),
      body,
    });
  }

  private authorization(): Record<string, string> {
    const environment = this.options.environment ?? process.env;
    const { MLFLOW_TRACKING_TOKEN: token, MLFLOW_TRACKING_USERNAME: user } = environment;
    if (token) return { authorization: `Bearer ${token}` };
    if (!user) return {};
    const pair = `${user}:${environment.MLFLOW_TRACKING_PASSWORD ?? ''}`;
    return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
  }
}
