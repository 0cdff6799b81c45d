/** The one-call decoder against the layers one by one, for every kind of layer it takes. */
import {
  aten,
  empty,
  full,
  liveTensors,
  manualSeed,
  noGrad,
  scope,
  setThreads,
  type Tensor,
  tensor,
} from '@verlet/torch';
import { describe, expect, it } from 'vitest';
import { applyLora, type CausalLM, createCausalLM, PackedAttention, setAdapterEnabled } from '../models/index.js';
import { recordWidth } from '../models/whole-pass.js';
import { CachedAttention, KvCache } from './kv-cache.js';
import { PackedDecoder } from './packed-decoder.js';
import type { SamplingColumns } from './sampler.js';

const families = {
  qwen2: {},
  'qwen3 with norms of q and k': { model_type: 'qwen3', head_dim: 24 },
  'llama without biases, own head': { model_type: 'llama', tie_word_embeddings: false },
  'mistral with a window': { model_type: 'mistral', sliding_window: 7 },
  'heads of an odd size': { head_dim: 10, model_type: 'qwen3', num_key_value_heads: 1 },
};

function makeModel(extra: Record<string, unknown>): CausalLM {
  manualSeed(3);
  return createCausalLM({
    model_type: 'qwen2',
    hidden_size: 40,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    num_hidden_layers: 3,
    intermediate_size: 72,
    vocab_size: 83,
    max_position_embeddings: 128,
    rms_norm_eps: 1e-6,
    tie_word_embeddings: true,
    initializer_range: 0.2,
    ...extra,
  });
}

/** Sequences of different lengths grown token by token; logits of every step by both ways, each with a cache of its own. */
function decodeBoth(model: CausalLM, blockSize: number, rows = 5, steps = 21): { packed: Tensor[]; layered: Tensor[] } {
  const width = Math.ceil((steps + rows) / blockSize);
  const caches = [0, 1].map(() => new KvCache(model.config, rows * width, blockSize, 'cpu', 'float32'));
  const decoder = PackedDecoder.of(model)!;
  const packed: Tensor[] = [];
  const layered: Tensor[] = [];
  const long = (values: number[]): Tensor => tensor(Int32Array.from(values), { dtype: 'int64' });
  noGrad(() => {
    for (let step = 0; step < steps; step++)
      scope(() => {
        // Row k starts k steps later.
        const live = Array.from({ length: rows }, (_, k) => k).filter((k) => step >= k);
        const at = live.map((k) => step - k);
        const block = (row: number, index: number): number => row + index * rows;
        const slots = long(
          live.map((k, j) => block(k, Math.floor(at[j]! / blockSize)) * blockSize + (at[j]! % blockSize)),
        );
        const table = tensor(
          Int32Array.from(live.flatMap((k) => Array.from({ length: width }, (_, b) => block(k, b)))),
          {
            shape: [live.length, width],
          },
        );
        const ids = long(live.map((k) => (k * 31 + step * 7) % 83));
        const positions = long(at);
        const maxPosition = step + 1;
        const int = (values: number[]): Tensor => tensor(Int32Array.from(values));
        const sequences = int(live.map((_, j) => j));
        const wanted = long(live.map((_, j) => j));
        packed.push(
          decoder.logits({ ids, positions, maxPosition, slots, sequences, table, wanted }, caches[0]!).keep(),
        );
        const context = new CachedAttention(
          caches[1]!,
          positions,
          maxPosition,
          slots,
          table,
          sequences,
          int(at.map((position) => position + 1)),
        );
        layered.push(model.logits(model.model.forward(ids, context)).keep());
      });
  });
  for (const cache of caches) cache.dispose();
  decoder.dispose();
  return { packed, layered };
}

function furthest(a: Tensor[], b: Tensor[]): number {
  return Math.max(...a.map((x, k) => scope(() => x.sub(b[k]!).abs().max().item())));
}

describe('the packed decoder', () => {
  it.each(Object.entries(families))('gives the logits of the layers: %s', (_, extra) => {
    scope(() => {
      const model = makeModel(extra);
      for (const blockSize of [16, 8, 5]) {
        const { packed, layered } = decodeBoth(model, blockSize);
        expect(furthest(packed, layered)).toBeLessThan(2e-5);
        expect(Math.max(...layered.map((x) => x.abs().max().item()))).toBeGreaterThan(0.1);
      }
      model.dispose();
    });
  });

  it('adds adapters in, unless they are switched off', () => {
    scope(() => {
      const model = makeModel({});
      const before = decodeBoth(model, 16).packed;
      const lora = applyLora(model, { rank: 4, targetModules: 'all-linear' });
      noGrad(() => {
        for (const [, adapter] of lora.adapters()) aten.normal_(adapter.lora_B, 0, 0.2);
      });
      const { packed, layered } = decodeBoth(model, 16);
      expect(furthest(packed, layered)).toBeLessThan(5e-5);
      expect(furthest(packed, before)).toBeGreaterThan(0.01);
      const { qkv_proj } = model.model.layers[0]!.self_attn;
      qkv_proj.adapters[1]!.enabled = false;
      const partly = decodeBoth(model, 16);
      expect(furthest(partly.packed, partly.layered)).toBeLessThan(5e-5);
      expect(furthest(partly.packed, packed)).toBeGreaterThan(1e-3);
      setAdapterEnabled(model, false);
      expect(furthest(decodeBoth(model, 16).packed, before)).toBe(0);
      model.dispose();
    });
  });

  it('gives every row the same bits whatever the threads', () => {
    scope(() => {
      const model = makeModel({});
      const one = decodeBoth(model, 16, 9).packed;
      try {
        setThreads(3);
        expect(furthest(decodeBoth(model, 16, 9).packed, one)).toBe(0);
      } finally {
        setThreads(1);
      }
      model.dispose();
    });
  });

  it('takes whole prompts, and parts of them, as it takes single tokens', () => {
    scope(() => {
      const model = makeModel({});
      const decoder = PackedDecoder.of(model)!;
      const lengths = [30, 1, 17, 64, 5];
      const blockSize = 16;
      const width = 4;
      const long = (values: number[]): Tensor => tensor(Int32Array.from(values), { dtype: 'int64' });
      const table = tensor(
        Int32Array.from({ length: lengths.length * width }, (_, k) => k),
        { shape: [lengths.length, width] },
      );
      /** Tokens `from` to `to` (as shares of their lengths) of every sequence, in one call; logits of the last of each. */
      const run = (cache: KvCache, from: (length: number) => number, to: (length: number) => number): Tensor => {
        const rows = lengths.flatMap((length, s) =>
          Array.from({ length: to(length) - from(length) }, (_, k) => ({ s, at: from(length) + k })),
        );
        const ends = rows.flatMap(({ s }, k) => (rows[k + 1]?.s === s ? [] : [k]));
        return decoder.logits(
          {
            ids: long(rows.map(({ s, at }) => (s * 31 + at * 7) % 83)),
            positions: long(rows.map(({ at }) => at)),
            maxPosition: 64,
            slots: long(rows.map(({ s, at }) => s * width * blockSize + at)),
            sequences: tensor(Int32Array.from(rows, ({ s }) => s)),
            table,
            wanted: long(ends),
          },
          cache,
        );
      };
      const fresh = (): KvCache => new KvCache(model.config, lengths.length * width, blockSize, 'cpu', 'float32');
      const [whole, parts, single] = [fresh(), fresh(), fresh()];
      noGrad(() => {
        const wanted = run(
          whole,
          () => 0,
          (length) => length,
        );
        run(
          parts,
          () => 0,
          (length) => Math.ceil(length / 2),
        );
        const second = run(
          parts,
          (length) => Math.ceil(length / 2),
          (length) => length,
        );
        for (let at = 0; at < 64; at++)
          run(
            single,
            (length) => Math.min(at, length),
            (length) => Math.min(at + 1, length),
          );
        const context = new PackedAttention(lengths);
        const ids = long(lengths.flatMap((length, s) => Array.from({ length }, (_, at) => (s * 31 + at * 7) % 83)));
        const ends = lengths.map((_, s) => lengths.slice(0, s + 1).reduce((sum, length) => sum + length, 0) - 1);
        const plain = model.logits(model.model.forward(ids, context, long(ends)));
        expect(wanted.sub(plain).abs().max().item()).toBeLessThan(2e-5);
        // The second part has nothing of the sequence of one token.
        expect(second.equal(wanted.indexSelect(0, long([0, 2, 3, 4])))).toBe(true);
        for (const [k, layer] of whole.keys.entries())
          expect(layer.select(0, 12).equal(single.keys[k]!.select(0, 12))).toBe(true);
        context.dispose();
      });
      for (const cache of [whole, parts, single]) cache.dispose();
      decoder.dispose();
      model.dispose();
    });
  });

  it('leaves nothing behind, and is not for models that it cannot hold', () => {
    const model = makeModel({});
    const before = liveTensors();
    PackedDecoder.of(model)!.dispose();
    expect(liveTensors()).toEqual(before);
    model.dispose();
    const half = createCausalLM({ ...model.config.raw }, { dtype: 'bfloat16' });
    expect(PackedDecoder.of(half)).toBeNull();
    half.dispose();
  });

  it('refuses what lies outside its tables', () => {
    scope(() => {
      const model = makeModel({});
      const cache = new KvCache(model.config, 2, 16, 'cpu', 'float32');
      const decoder = PackedDecoder.of(model)!;
      const long = (value: number): Tensor => tensor(Int32Array.from([value]), { dtype: 'int64' });
      const table = tensor(Int32Array.from([0]), { shape: [1, 1] });
      const step = (ids: number, slots: number): Tensor =>
        decoder.logits(
          {
            ids: long(ids),
            positions: long(0),
            maxPosition: 1,
            slots: long(slots),
            sequences: tensor(Int32Array.from([0])),
            table,
            wanted: long(0),
          },
          cache,
        );
      expect(() => step(83, 0)).toThrow(/token 83 is not in the vocabulary of 83/);
      expect(() => step(1, 32)).toThrow(/slot 32 is outside the cache/);
      cache.dispose();
      decoder.dispose();
      model.dispose();
    });
  });

  it('refuses several steps that its tables, or the tape, have no room for', () => {
    scope(() => {
      const model = makeModel({});
      const cache = new KvCache(model.config, 2, 16, 'cpu', 'float32');
      const decoder = PackedDecoder.of(model)!;
      const table = tensor(Int32Array.from([0]), { shape: [1, 1] });
      const long = (value: number): Tensor => tensor(BigInt64Array.from([BigInt(value)]));
      const columns = { temperature: full([1], 1), topP: full([1], 1), minP: full([1], 0), topK: long(-1) };
      const ends = tensor(BigInt64Array.from([-1n]), { shape: [1, 1] });
      const sampling = { ...columns, ends, seed: long(1), stream: long(0) } as SamplingColumns;
      const width = recordWidth(model.config);
      const decode = (position: number, limit: number, pieces: Tensor[] = [], first = -1): Tensor =>
        decoder.decode(
          {
            ids: long(1),
            positions: long(position),
            drawn: long(0),
            limits: long(limit),
            maxPosition: 16,
            table,
            steps: 4,
            columns: sampling,
            record: { pieces, first, count: 4 },
          },
          cache,
        )[0];
      noGrad(() => {
        expect(
          decode(0, 4, [empty([4, width])], 0)
            .toInt32Array()
            .every((token) => token >= 0),
        ).toBe(true);
        expect(() => decode(14, 4)).toThrow(/4 tokens from position 14 on are too many/);
        expect(() => decode(2 ** 63 - 1024, 1)).toThrow(/too many for the steps, the rotary table/);
        expect(() => decode(0, 5)).toThrow(/5 tokens from position 0 on are too many/);
        expect(() => decode(0, 4, [empty([4, width])], 1)).toThrow(/no room for 4 steps of 1 rows/);
        expect(() => decode(0, 4, [empty([4, width])], 2 ** 63 - 1024)).toThrow(/no room for 4 steps/);
        expect(() => decode(0, 4, [empty([4, width]), empty([5, width])], 0)).toThrow(/pieces of one size/);
        const unaligned = empty([4 * width + 1])
          .narrow(0, 1, 4 * width)
          .view(4, width);
        expect(() => decode(0, 4, [unaligned], 0)).toThrow(/multiple of 16 bytes/);
      });
      cache.dispose();
      decoder.dispose();
      model.dispose();
    });
  });
});
