import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { messageOf } from '../deadline.js';
import { type RetrievedDocument, type RetrieveResponse, type Retriever, retrieveResponseSchema } from './contract.js';

export interface RetrieverClientOptions {
  url: string;
  /** Sent as a bearer token. */
  token?: string;
  /** Tries in all, on 500, 502, 503, 504, connection errors and timeouts. */
  attempts?: number;
  /** Seconds between tries, times the number of the try. */
  retryDelaySeconds?: number;
  /** Per try. */
  timeoutSeconds?: number;
  /** Queries asked for at the same moment travel in one request of at most this many. */
  maxBatch?: number;
}

interface Waiting {
  query: string;
  signal?: AbortSignal;
  topk: number;
  resolve: (hits: RetrievedDocument[]) => void;
  reject: (error: unknown) => void;
}

/** Client of a `POST /retrieve` server: this project's, Search-R1's or any that keeps the contract. */
export class RetrieverClient implements Retriever {
  private waiting: Waiting[] = [];
  private readonly options: Required<Omit<RetrieverClientOptions, 'token'>> & { token?: string };

  constructor(options: RetrieverClientOptions) {
    this.options = { attempts: 10, retryDelaySeconds: 1, timeoutSeconds: 30, maxBatch: 128, ...options };
  }

  async retrieve(queries: readonly string[], topk: number, signal?: AbortSignal): Promise<RetrievedDocument[][]> {
    const hits = Promise.all(queries.map((query) => this.enqueue(query, topk, signal)));
    if (!signal) return hits;
    return await new Promise((resolve, reject) => {
      const onAbort = () => reject(signal.reason);
      if (signal.aborted) onAbort();
      signal.addEventListener('abort', onAbort, { once: true });
      hits.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
    });
  }

  private enqueue(query: string, topk: number, signal?: AbortSignal): Promise<RetrievedDocument[]> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ query, topk, resolve, reject, ...(signal ? { signal } : {}) });
      // Rollouts that search in the same turn of the event loop share a request.
      if (this.waiting.length === 1) setImmediate(() => this.flush());
    });
  }

  private flush(): void {
    const waiting = this.waiting;
    this.waiting = [];
    const groups = new Map<number, Waiting[]>();
    for (const entry of waiting) groups.set(entry.topk, [...(groups.get(entry.topk) ?? []), entry]);
    for (const [topk, group] of groups) {
      for (let start = 0; start < group.length; start += this.options.maxBatch) {
        const batch = group.slice(start, start + this.options.maxBatch);
        this.post(batch, topk).then(
          (hits) => {
            for (const [index, entry] of batch.entries()) entry.resolve(hits[index]!);
          },
          (error) => {
            for (const entry of batch) entry.reject(error);
          },
        );
      }
    }
  }

  private async post(batch: readonly Waiting[], topk: number): Promise<RetrievedDocument[][]> {
    const { url, token, attempts, retryDelaySeconds, timeoutSeconds } = this.options;
    const queries = batch.map(({ query }) => query);
    const isWanted = () => batch.some(({ signal }) => !signal?.aborted);
    let last = '';
    for (let attempt = 1; attempt <= attempts && isWanted(); attempt++) {
      try {
        const response = await fetch(url, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) },
          body: JSON.stringify({ queries, topk, return_scores: true }),
          signal: AbortSignal.timeout(timeoutSeconds * 1000),
        });
        if (response.ok) return readHits(await response.json(), queries.length, url);
        last = `HTTP ${response.status} ${(await response.text()).slice(0, 200)}`;
        if (![500, 502, 503, 504].includes(response.status)) break;
      } catch (error) {
        if (error instanceof ContractError) throw error;
        const cause = error instanceof Error && error.cause ? ` (${messageOf(error.cause)})` : '';
        last = `${messageOf(error)}${cause}`;
      }
      if (attempt < attempts) await delay(retryDelaySeconds * attempt * 1000);
    }
    throw new Error(`the retriever at ${url} does not answer: ${last}`);
  }
}

class ContractError extends Error {}

function readHits(body: unknown, count: number, url: string): RetrievedDocument[][] {
  const parsed = retrieveResponseSchema.safeParse(body);
  if (!parsed.success)
    throw new ContractError(`the retriever at ${url} broke the contract: ${z.prettifyError(parsed.error)}`);
  if (parsed.data.result.length !== count) {
    throw new ContractError(
      `the retriever at ${url} answered ${count} queries with ${parsed.data.result.length} lists`,
    );
  }
  return parsed.data.result.map((hits) => hits.map(readHit));
}

type Hit = RetrieveResponse['result'][number][number];

function readHit(hit: Hit, index: number): RetrievedDocument {
  const scored =
    'document' in hit && 'score' in hit
      ? (hit as Extract<Hit, { score: number }>)
      : { document: hit as Document, score: 0 };
  const { id, contents } = scored.document as Document;
  return { document: { id: String(id ?? index), contents }, score: scored.score };
}

interface Document {
  id?: string | number;
  contents: string;
}
