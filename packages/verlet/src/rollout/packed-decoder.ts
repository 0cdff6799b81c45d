/**
 * A small model laid out for generation on the CPU: one native call takes new tokens of all sequences through all layers. The
 * weights are copied into the order in which the products read them, with adapters added in, and copied anew when they change.
 */
import { aten, cat, noGrad, scope, type Tensor } from '@verlet/torch';
import type { PackedLinear } from '../models/linear.js';
import type { CausalLM } from '../models/transformer.js';
import { isPlainDecoder, layerWeights } from '../models/whole-pass.js';
import type { TapeRows } from './activation-tape.js';
import type { KvCache } from './kv-cache.js';
import type { SamplingColumns } from './sampler.js';

/** Beyond this the products are so large that what lies between them hardly counts, and the copy would. */
const mostBytes = 512 * 2 ** 20;

/** New tokens of several sequences; those of one sequence stand together and in order. */
export interface DecodeBatch {
  ids: Tensor;
  positions: Tensor;
  maxPosition: number;
  slots: Tensor;
  /** Whose token it is, as a row of the table; int32. */
  sequences: Tensor;
  /** Block numbers of each sequence; int32. */
  table: Tensor;
  /** The tokens whose logits are asked for, ascending; int64. */
  wanted: Tensor;
  /** Where the activations are written down, and in which rows there. */
  record?: TapeRows | null;
}

/** Sequences that go on for several tokens. */
export interface DecodeManyBatch {
  /** The last token of each, and its position. */
  ids: Tensor;
  positions: Tensor;
  /** How many tokens were sampled before, and how many may be now. */
  drawn: Tensor;
  limits: Tensor;
  maxPosition: number;
  table: Tensor;
  steps: number;
  columns: SamplingColumns;
  record?: TapeRows | null;
}

export class PackedDecoder {
  private readonly head: Tensor;
  private readonly layers: Tensor[];
  private readonly windows: number[];

  private constructor(private readonly model: CausalLM) {
    const { config } = model;
    const made = noGrad(() =>
      scope(() => {
        const head = aten.verlet_pack_weight(model.headWeight).heldBy(this);
        const layers = layerWeights(model.model, pack).map((weight) => weight.heldBy(this));
        return { head, layers };
      }),
    );
    this.head = made.head;
    this.layers = made.layers;
    this.windows = Array.from({ length: config.numLayers }, (_, k) => config.slidingWindows[k] ?? 0);
  }

  /** Null where the model must run layer by layer. */
  static of(model: CausalLM): PackedDecoder | null {
    if (!isPlainDecoder(model.model)) return null;
    return model.parameterCount() * 4 <= mostBytes ? new PackedDecoder(model) : null;
  }

  /** What every call is given of the cache and the model. */
  private parts(cache: KvCache, maxPosition: number) {
    const { config, model: decoder } = this.model;
    decoder.reservePositions(maxPosition);
    const { cos, sin } = decoder.rotaryTables;
    return [
      cache.keys,
      cache.values,
      decoder.embed_tokens.weight,
      this.head,
      decoder.norm.weight,
      this.layers,
      cos,
      sin,
      config.numHeads,
      config.intermediateSize,
      this.windows,
      config.rmsNormEps,
    ] as const;
  }

  /** [wanted, vocabulary]; keys and values of the tokens go into the cache on the way. */
  logits(batch: DecodeBatch, cache: KvCache): Tensor {
    const { ids, positions, maxPosition, slots, sequences, table, wanted, record } = batch;
    return aten.verlet_decode_step(
      ids,
      positions,
      slots,
      sequences,
      table,
      wanted,
      ...this.parts(cache, maxPosition),
      record?.pieces ?? [],
      record ? aten.arange_start(record.first, record.first + record.count, 'int64') : null,
    );
  }

  /** Several tokens in a row for each sequence, [rows, steps]; -1 behind a sequence's end. */
  decode(batch: DecodeManyBatch, cache: KvCache): [tokens: Tensor, logProbs: Tensor] {
    const { ids, positions, drawn, limits, maxPosition, table, steps, columns, record } = batch;
    const { ends, temperature, topP, minP, topK, seed, stream } = columns;
    return aten.verlet_decode_steps(
      ids,
      positions,
      drawn,
      limits,
      table,
      ends,
      steps,
      temperature,
      topP,
      minP,
      topK,
      seed,
      stream,
      ...this.parts(cache, maxPosition),
      record?.pieces ?? [],
      record?.first ?? -1,
    );
  }

  dispose(): void {
    this.head.dispose();
    for (const weight of new Set(this.layers)) weight.dispose();
  }
}

/** Adapters are added in by part, as the layers do: one may be on while its neighbour is off. */
function pack(linear: PackedLinear): Tensor {
  return scope(() => {
    const isAdded = linear.adapters.map((adapter) => adapter?.enabled ?? false);
    const parts = isAdded.map((added, part) => (added ? linear.mergedWeight(part) : linear.partWeight(part)));
    return aten.verlet_pack_weight(isAdded.includes(true) ? cat(parts) : linear.weight.detach());
  });
}
