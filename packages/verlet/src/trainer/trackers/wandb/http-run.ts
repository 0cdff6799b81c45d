import type { ValidationExample } from '../../validation.js';
import { Delivery } from '../delivery.js';
import { requestJson } from '../http.js';
import type { Metrics } from '../types.js';
import type { WandbOptions, WandbRun } from './index.js';

const OPEN_RUN = `mutation UpsertBucket($name: String, $project: String, $entity: String, $displayName: String, $config: JSONString) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config}) {
    bucket { name historyLineCount project { name entity { name } } }
  }
}`;

interface OpenedRun {
  data?: {
    upsertBucket?: {
      bucket: { name: string; historyLineCount?: number; project: { name: string; entity: { name: string } } };
    };
  };
  errors?: { message: string }[];
}

export interface WandbHttpOptions extends WandbOptions {
  id: string;
  key: string;
  baseUrl?: string;
  entity?: string;
}

/** What the web service of W&B takes: a mutation opens the run, then lines are appended to its history. */
export class WandbHttp implements WandbRun {
  private readonly delivery: Delivery<{ line: string; summary: Metrics }>;
  private streamUrl: string | null = null;
  private offset = 0;

  constructor(private readonly options: WandbHttpOptions) {
    this.delivery = new Delivery({
      name: 'wandb',
      batchSize: 200,
      retrySeconds: options.retrySeconds,
      onTrouble: options.onTrouble,
      send: (entries) => this.send(entries),
    });
  }

  log(metrics: Metrics, step: number): void {
    const line = JSON.stringify({ ...metrics, _step: step, _timestamp: Date.now() / 1000 });
    this.delivery.add({ line, summary: { ...metrics, _step: step } });
  }

  /** Tables are uploads of their own; those are left to the Python package. */
  generations(_examples: readonly ValidationExample[], _step: number): void {}

  async finish(exitCode: number, seconds: number): Promise<void> {
    await this.delivery.finish(seconds);
    if (this.streamUrl) await this.post(this.streamUrl, { complete: true, exitcode: exitCode });
  }

  private async send(entries: readonly { line: string; summary: Metrics }[]): Promise<void> {
    this.streamUrl ??= await this.open();
    await this.post(this.streamUrl, {
      files: {
        'wandb-history.jsonl': { offset: this.offset, content: entries.map((entry) => entry.line) },
        'wandb-summary.json': { offset: 0, content: [JSON.stringify(entries.at(-1)!.summary)] },
      },
    });
    this.offset += entries.length;
  }

  private async open(): Promise<string> {
    const base = (this.options.baseUrl ?? 'https://api.wandb.ai').replace(/\/+$/, '');
    const config = Object.fromEntries(
      Object.entries((this.options.config ?? {}) as object).map(([key, value]) => [key, { value }]),
    );
    const variables = {
      name: this.options.id,
      project: this.options.project,
      entity: this.options.entity,
      displayName: this.options.runName,
      config: JSON.stringify(config),
    };
    const opened = await this.post<OpenedRun>(`${base}/graphql`, { query: OPEN_RUN, variables });
    const bucket = opened.data?.upsertBucket?.bucket;
    if (!bucket)
      throw new Error(`the server opened no run: ${opened.errors?.map((error) => error.message).join('; ')}`);
    this.offset = bucket.historyLineCount ?? 0;
    return `${base}/files/${bucket.project.entity.name}/${bucket.project.name}/${bucket.name}/file_stream`;
  }

  private post<T>(url: string, body: unknown): Promise<T> {
    const authorization = `Basic ${Buffer.from(`api:${this.options.key}`).toString('base64')}`;
    return requestJson<T>({ url, body, headers: { authorization } });
  }
}
