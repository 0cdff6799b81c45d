import { randomUUID } from 'node:crypto';
import { mapConcurrently } from '../../protocol/map-concurrently.js';
import { postJson, type RetryOptions } from '../http.js';
import { RewardError, type RewardInput, type RewardManager, type RewardResult, type ScoredSample } from '../types.js';
import { applyErrorPolicy, type ErrorPolicy, failed, scored } from './outcome.js';

export interface RemoteOptions extends RetryOptions, ErrorPolicy {
  /** `POST` target. */
  url: string;
  /** Samples per request. */
  batch_size?: number;
  max_concurrent?: number;
  /** The key of `extra_info` whose value identifies the task at the service (`instance_id`); otherwise an id is made up. */
  id_key?: string;
  /** Further input fields to send. */
  fields?: readonly string[];
}

interface RemoteReply {
  results?: ({ id?: string; error?: string } & Record<string, unknown>)[];
}

const sentFields = ['data_source', 'solution_str', 'ground_truth', 'extra_info'] as const;

/**
 * Scores at an HTTP service, for tasks whose reward needs its own machines (tests of a repository, a simulator).
 * Request `{samples: [{id, data_source, solution_str, ground_truth, extra_info, ...}]}`, reply `{results: [{id, score, ...}]}`;
 * results are matched by id, so the service may answer in any order. An id stays the same over retries.
 */
export class RemoteRewardManager implements RewardManager {
  readonly name = 'remote';

  constructor(private readonly options: RemoteOptions) {
    if (!URL.canParse(options.url))
      throw new TypeError(`remote reward: url is not a URL: ${JSON.stringify(options.url)}`);
  }

  async score(samples: readonly RewardInput[]): Promise<ScoredSample[]> {
    const size = this.options.batch_size ?? 1;
    const batches: RewardInput[][] = [];
    for (let at = 0; at < samples.length; at += size) batches.push(samples.slice(at, at + size));
    const results = await mapConcurrently(batches, this.options.max_concurrent ?? 16, (batch) =>
      this.scoreBatch(batch),
    );
    return applyErrorPolicy(this.name, samples, results.flat(), this.options);
  }

  private async scoreBatch(batch: readonly RewardInput[]): Promise<ScoredSample[]> {
    const ids = batch.map((sample) => this.taskId(sample));
    try {
      const requests = batch.map((sample, index) => {
        const fields = [...sentFields, ...(this.options.fields ?? [])].map((field) => [field, plain(sample[field])]);
        return { id: ids[index], ...Object.fromEntries(fields) };
      });
      const reply = (await postJson(this.options.url, { samples: requests }, this.options)) as RemoteReply | null;
      if (!Array.isArray(reply?.results))
        throw new RewardError(`${this.options.url} answered without a "results" list`);
      const byId = new Map(
        reply.results.map((result, index) => [result.id ?? (batch.length === 1 ? ids[0] : String(index)), result]),
      );
      return batch.map((sample, index) => {
        try {
          const result = byId.get(ids[index]!);
          if (!result) throw new RewardError(`${this.options.url} sent no result for id ${ids[index]}`);
          if (result.error) throw new RewardError(`the scoring service failed on id ${ids[index]}: ${result.error}`);
          const { id: _, ...fields } = result;
          return scored(sample, fields as RewardResult);
        } catch (error) {
          return failed(sample, error, this.options);
        }
      });
    } catch (error) {
      return batch.map((sample) => failed(sample, error, this.options));
    }
  }

  private taskId(sample: RewardInput): string {
    const { id_key: key } = this.options;
    if (!key) return randomUUID();
    // Several samples of one task go out at once: the id must tell them apart.
    return `${String(sample.extra_info[key] ?? 'unknown')}:${randomUUID().slice(0, 8)}`;
  }

  async close(): Promise<void> {}
}

const plain = (value: unknown): unknown =>
  ArrayBuffer.isView(value) ? Array.from(value as unknown as ArrayLike<number>) : value;
