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

  /** [wanted, vocabulary]; keys and values of the tokens go into the cache on the way. */
  logits(batch: DecodeBatch, cache: KvCache): Tensor {
    const { ids, positions, maxPosition, slots, sequences, table, wanted, record } = batch;
    const { config, model: decoder } = this.model;
    decoder.reservePositions(maxPosition);
    const { cos, sin } = decoder.rotaryTables;
    return aten.verlet_decode_step(
      ids,
      positions,
      slots,
      sequences,
      table,
      wanted,
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
      record?.pieces ?? [],
      record ? aten.arange_start(record.first, record.first + record.count, 'int64') : null,
    );
  }

  /**
   * Several tokens in a row for each sequence.
   *
   * @param columns [rows] each: a sequence's last token, its position, how many were sampled before, how many may be now
   */
  decode(
    columns: readonly [ids: Tensor, positions: Tensor, drawn: Tensor, limits: Tensor],
    table: Tensor,
    steps: number,
    maxPosition: number,
    { ends, temperature, topP, minP, topK, seed, stream }: SamplingColumns,
    cache: KvCache,
    record: DecodeBatch['record'],
  ): { tokens: Tensor; logProbs: Tensor } {
    const { config, model: decoder } = this.model;
    decoder.reservePositions(maxPosition);
    const { cos, sin } = decoder.rotaryTables;
    const [tokens, logProbs] = aten.verlet_decode_steps(
      ...columns,
      table,
      ends,
      steps,
      temperature,
      topP,
      minP,
      topK,
      seed,
      stream,
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
      record?.pieces ?? [],
      record?.first ?? -1,
    );
    return { tokens, logProbs };
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
