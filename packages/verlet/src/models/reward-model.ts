/** Reward models that classify a sequence: a `*ForSequenceClassification` folder with one label, scored on its last token. */
import path from 'node:path';
import { type DType, nn, noGrad, openSafetensors, scope } from '@verlet/torch';
import { PackedAttention } from './attention.js';
import { UnsupportedModelError } from './config.js';
import { type ChatMessage, Tokenizer } from './tokenizer/index.js';
import { loadValueModel, type ValueModel } from './value-model.js';

export interface RewardModelOptions {
  dtype?: DType;
  device?: string;
  /** Tokenizer folder when it is not beside the weights. */
  tokenizerFolder?: string;
  /** Tokens that run in one pass. */
  maxBatchedTokens?: number;
}

export class SequenceClassifier {
  constructor(
    readonly name: string,
    readonly model: ValueModel,
    private readonly tokenizer: Tokenizer | null = null,
    private readonly maxBatchedTokens = 16384,
  ) {}

  /** One scalar per conversation; the last message is the response. The event loop gets its turn between passes. */
  async scoreConversations(
    conversations: readonly (readonly { role: string; content: unknown; [key: string]: unknown }[])[],
  ): Promise<number[]> {
    const { tokenizer } = this;
    if (!tokenizer) throw new Error(`reward model ${this.name} was made without a tokenizer; use scoreTokens`);
    const rows = conversations.map((messages) => tokenizer.encodeChat(messages as readonly ChatMessage[]));
    const limit = this.model.config.maxPositionEmbeddings;
    for (const [k, ids] of rows.entries())
      if (ids.length > limit)
        throw new UnsupportedModelError(
          `reward model ${this.name}: conversation ${k} has ${ids.length} tokens, the model takes ${limit}`,
        );
    const scores: number[] = [];
    for (const batch of this.batches(rows)) {
      scores.push(...this.scoreTokens(batch));
      await new Promise((resolve) => setImmediate(resolve));
    }
    return scores;
  }

  /** One scalar per sequence of token ids, all in one pass. */
  scoreTokens(sequences: readonly ArrayLike<number>[]): number[] {
    if (sequences.length === 0) return [];
    const empty = sequences.findIndex((ids) => ids.length === 0);
    if (empty >= 0) throw new UnsupportedModelError(`reward model ${this.name}: sequence ${empty} has no tokens`);
    const { model } = this;
    return noGrad(() =>
      scope(() => {
        const lengths = sequences.map((ids) => ids.length);
        const ids = Int32Array.from(sequences.flatMap((sequence) => Array.from(sequence)));
        const context = new PackedAttention(lengths, model.device);
        const hidden = model.model.forward(nn.indexTensor(ids, model.device), context);
        let start = 0;
        const last = sequences.map((sequence, k) => {
          const at = start + this.lastToken(sequence);
          start += lengths[k]!;
          return at;
        });
        const scores = model.values(hidden.indexSelect(0, nn.indexTensor(last, model.device)));
        context.dispose();
        return Array.from(scores.to('cpu').toFloat32Array());
      }),
    );
  }

  /** As transformers: the last token that is not padding, also where a template ends with the token that pads. */
  private lastToken(sequence: ArrayLike<number>): number {
    const pad = this.model.config.padTokenId;
    let at = sequence.length - 1;
    if (pad === null) return at;
    while (at > 0 && sequence[at] === pad) at--;
    return at;
  }

  private *batches(rows: readonly Int32Array[]): IterableIterator<Int32Array[]> {
    let batch: Int32Array[] = [];
    let tokens = 0;
    for (const row of rows) {
      if (batch.length > 0 && tokens + row.length > this.maxBatchedTokens) {
        yield batch;
        batch = [];
        tokens = 0;
      }
      batch.push(row);
      tokens += row.length;
    }
    if (batch.length > 0) yield batch;
  }

  dispose(): void {
    this.model.dispose();
  }
}

/** Loads a reward model with its tokenizer and chat template. */
export async function loadRewardModel(folder: string, options: RewardModelOptions = {}): Promise<SequenceClassifier> {
  using reader = openSafetensors(folder);
  if (!reader.has('score.weight'))
    throw new UnsupportedModelError(
      `${folder} is not a sequence-classification model: it has no 'score.weight'. A causal model can judge through a prompt instead`,
    );
  const labels = reader.info('score.weight').shape[0];
  if (labels !== 1)
    throw new UnsupportedModelError(`${folder}: the score head has ${labels} labels; a reward model has one`);
  const tokenizer = await Tokenizer.load(options.tokenizerFolder ?? folder);
  const model = await loadValueModel(folder, options);
  model.setTrainable(false);
  return new SequenceClassifier(path.basename(path.resolve(folder)), model, tokenizer, options.maxBatchedTokens);
}
