import { z } from 'zod';
import type { CorpusDocument, RetrievedDocument, Retriever } from './contract.js';

export interface EmbeddingsOptions {
  /** An OpenAI-style embeddings endpoint, for example `http://127.0.0.1:8080/v1/embeddings`. */
  url: string;
  model: string;
  apiKey?: string;
  /** Put before queries and passages; e5 models want `query: ` and `passage: `. */
  queryPrefix?: string;
  passagePrefix?: string;
  batchSize?: number;
  timeoutSeconds?: number;
}

const replySchema = z.object({ data: z.array(z.object({ index: z.number().int(), embedding: z.array(z.number()) })) });

/** Nearest passages by cosine of embeddings that some server computes. Exact search over vectors in memory. */
export class DenseRetriever implements Retriever {
  private constructor(
    private readonly options: EmbeddingsOptions,
    private readonly documents: CorpusDocument[],
    private readonly vectors: Float32Array[],
  ) {}

  static async from(
    corpus: Iterable<CorpusDocument> | AsyncIterable<CorpusDocument>,
    options: EmbeddingsOptions,
    onProgress?: (embedded: number) => void,
  ): Promise<DenseRetriever> {
    const documents: CorpusDocument[] = [];
    for await (const document of corpus) documents.push(document);
    const vectors: Float32Array[] = [];
    const batchSize = options.batchSize ?? 64;
    for (let start = 0; start < documents.length; start += batchSize) {
      const batch = documents.slice(start, start + batchSize);
      vectors.push(
        ...(await embed(
          options,
          batch.map(({ contents }) => `${options.passagePrefix ?? ''}${contents}`),
        )),
      );
      onProgress?.(vectors.length);
    }
    return new DenseRetriever(options, documents, vectors);
  }

  get size(): number {
    return this.documents.length;
  }

  async retrieve(queries: readonly string[], topk: number, signal?: AbortSignal): Promise<RetrievedDocument[][]> {
    if (queries.length === 0) return [];
    const embedded = await embed(
      this.options,
      queries.map((query) => `${this.options.queryPrefix ?? ''}${query}`),
      signal,
    );
    return embedded.map((query) => this.nearest(query, topk));
  }

  private nearest(query: Float32Array, topk: number): RetrievedDocument[] {
    const best: { index: number; score: number }[] = [];
    this.vectors.forEach((vector, index) => {
      const score = dot(query, vector);
      if (best.length === topk && score <= best[topk - 1]!.score) return;
      best.splice(best.findLastIndex((hit) => hit.score >= score) + 1, 0, { index, score });
      if (best.length > topk) best.pop();
    });
    return best.map(({ index, score }) => ({ document: this.documents[index]!, score }));
  }
}

async function embed(options: EmbeddingsOptions, input: string[], signal?: AbortSignal): Promise<Float32Array[]> {
  const { url, model, apiKey, timeoutSeconds = 60 } = options;
  const deadline = AbortSignal.timeout(timeoutSeconds * 1000);
  let response: Response;
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}) },
      body: JSON.stringify({ model, input, encoding_format: 'float' }),
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
    });
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw new Error(`the embeddings endpoint ${url} cannot be reached: ${cause}`, { cause: error });
  }
  if (!response.ok)
    throw new Error(
      `the embeddings endpoint ${url} answered HTTP ${response.status}: ${(await response.text()).slice(0, 200)}`,
    );
  const parsed = replySchema.safeParse(await response.json());
  if (!parsed.success)
    throw new Error(`the embeddings endpoint ${url} answered in another shape: ${z.prettifyError(parsed.error)}`);
  if (parsed.data.data.length !== input.length) {
    throw new Error(
      `the embeddings endpoint ${url} answered ${input.length} texts with ${parsed.data.data.length} vectors`,
    );
  }
  const vectors = new Array<Float32Array>(input.length);
  for (const { index, embedding } of parsed.data.data) vectors[index] = normalized(embedding);
  return vectors;
}

function normalized(values: readonly number[]): Float32Array {
  const length = Math.hypot(...values) || 1;
  return Float32Array.from(values, (value) => value / length);
}

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
