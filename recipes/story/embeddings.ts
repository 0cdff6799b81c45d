// Texts as unit vectors: from an OpenAI-style endpoint, or from a model folder in this process.
import { nn, noGrad, scope } from '@verlet/torch';
import { models, Tokenizer } from 'verlet';

export interface EmbeddingOptions {
  /** For example `http://127.0.0.1:8080/v1/embeddings`. */
  url?: string | null;
  /** What the endpoint calls the model. */
  model?: string;
  api_key?: string;
  timeout_s?: number;
  /** A folder (or a name on the Hugging Face hub) of a decoder such as Qwen3-Embedding, taken instead of the
   * endpoint: the state of the last token is the vector. */
  folder?: string | null;
}

export interface Embedder {
  embed(texts: readonly string[]): Promise<Float32Array[]>;
}

export async function openEmbedder(options: EmbeddingOptions): Promise<Embedder> {
  if (options.folder) return openFolder(options.folder);
  if (options.url) return { embed: (texts) => embedRemotely(texts, options) };
  throw new Error('reward_kwargs.embeddings needs a url or a folder');
}

export function cosine(a: Float32Array, b: Float32Array): number {
  return a.reduce((sum, value, k) => sum + value * b[k]!, 0);
}

function unit(values: ArrayLike<number>): Float32Array {
  const length = Math.hypot(...Array.from(values)) || 1;
  return Float32Array.from(values, (value) => value / length);
}

async function embedRemotely(input: readonly string[], options: EmbeddingOptions): Promise<Float32Array[]> {
  const { url, model, api_key: key, timeout_s: timeout = 60 } = options;
  const response = await fetch(url!, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) },
    body: JSON.stringify({ model, input, encoding_format: 'float' }),
    signal: AbortSignal.timeout(timeout * 1000),
  }).catch((error: Error) => {
    throw new Error(
      `the embeddings endpoint ${url} cannot be reached: ${(error.cause as Error)?.message ?? error.message}`,
    );
  });
  if (!response.ok)
    throw new Error(`${url} answered HTTP ${response.status}: ${(await response.text()).slice(0, 200)}`);
  const { data } = (await response.json()) as { data?: { index: number; embedding: number[] }[] };
  if (data?.length !== input.length)
    throw new Error(`${url} answered ${input.length} texts with ${data?.length ?? 'no'} vectors`);
  return [...data].sort((a, b) => a.index - b.index).map(({ embedding }) => unit(embedding));
}

async function openFolder(name: string): Promise<Embedder> {
  const folder = await models.resolveModel(name);
  const tokenizer = await Tokenizer.load(folder);
  const model = await models.loadCausalLM(folder);
  model.setTrainable(false);
  const embed = async (texts: readonly string[]): Promise<Float32Array[]> => {
    const rows = texts.map((text) => [...tokenizer.encode(text), tokenizer.eosTokenId ?? tokenizer.padTokenId ?? 0]);
    return noGrad(() =>
      scope(() => {
        const lengths = rows.map((row) => row.length);
        const context = new models.PackedAttention(lengths, model.device);
        const ends = lengths.map((_, k) => lengths.slice(0, k + 1).reduce((sum, length) => sum + length, 0) - 1);
        const hidden = model.model
          .forward(nn.indexTensor(Int32Array.from(rows.flat()), model.device), context)
          .indexSelect(0, nn.indexTensor(ends, model.device));
        const values = hidden.to('float32').to('cpu').toFloat32Array();
        context.dispose();
        const size = values.length / texts.length;
        return texts.map((_, k) => unit(values.subarray(k * size, (k + 1) * size)));
      }),
    );
  };
  return { embed };
}
