import { manualSeed, tensor } from '@verlet/torch';
import { afterAll, expect, it } from 'vitest';
import { createCausalLM } from '../models/index.js';
import { DataProto } from '../protocol/index.js';
import { ActivationTape } from '../rollout/activation-tape.js';
import { packOptions, packRows, rowSource } from './packing.js';
import { recordedRows } from './recorded-rows.js';

manualSeed(0);
const model = createCausalLM({
  model_type: 'llama',
  hidden_size: 16,
  num_attention_heads: 2,
  num_key_value_heads: 1,
  num_hidden_layers: 1,
  intermediate_size: 16,
  vocab_size: 32,
  max_position_embeddings: 32,
  rms_norm_eps: 1e-6,
  tie_word_embeddings: true,
});
const tapes: ActivationTape[] = [];
afterAll(() => {
  for (const tape of tapes) tape.dispose();
  model.dispose();
});

/** As if these had been sampled one after the other: the records of each stand together. */
function tapeOf(...sequences: number[][]): ActivationTape {
  const tape = ActivationTape.of(model, 2 ** 22)!;
  tapes.push(tape);
  for (const tokens of sequences) {
    tape.take([...tokens.keys()].slice(0, -1), 32);
    tape.remember(tokens, (position) => position);
  }
  return tape;
}

/** Rows of a prompt and of what follows it; negative tokens were not sampled. */
function indexOf(tape: ActivationTape, rows: { prompt: number[]; response: number[] }[]): number[] | null {
  const [promptWidth, responseWidth] = [4, 6];
  const width = promptWidth + responseWidth;
  const columns = rows.map(({ prompt, response }) => {
    const left = promptWidth - prompt.length;
    const right = responseWidth - response.length;
    const pad = (count: number) => new Array<number>(count).fill(0);
    const real = [...prompt, ...response.map(Math.abs)];
    return {
      ids: [...pad(left), ...real, ...pad(right)],
      mask: [...pad(left), ...real.map(() => 1), ...pad(right)],
      sampled: [...response.map((token) => Number(token > 0)), ...pad(right)],
    };
  });
  const long = (values: number[][], size: number) =>
    tensor(Int32Array.from(values.flat()), { shape: [rows.length, size], dtype: 'int64' });
  const ids = columns.map((column) => column.ids);
  const batch = DataProto.fromDict({
    tensors: {
      input_ids: long(ids, width),
      attention_mask: long(
        columns.map(({ mask }) => mask),
        width,
      ),
      responses: long(
        ids.map((row) => row.slice(promptWidth)),
        responseWidth,
      ),
      response_mask: long(
        columns.map(({ sampled }) => sampled),
        responseWidth,
      ),
    },
  });
  const source = rowSource(batch);
  const packed = packRows(source, [...rows.keys()], packOptions(model));
  const recorded = recordedRows(tape, source, packed);
  const index = recorded?.index.toInt32Array() ?? null;
  packed.dispose();
  batch.dispose();
  return index && [...index];
}

it('finds the record of every token but the last, a shared prompt once', () => {
  const tape = tapeOf([1, 2, 3, 4], [1, 2, 3, 5, 6, 7]);
  const [first, second] = [
    { prompt: [1, 2, 3], response: [4] },
    { prompt: [1, 2, 3], response: [5, 6, 7] },
  ];
  expect(indexOf(tape, [second])).toEqual([3, 4, 5, 6, 7]);
  // The prompt, the one token of the first answer (which nothing depends on), and what predicts in the second.
  expect(indexOf(tape, [first, second])).toEqual([0, 1, 2, 2, 6, 7]);
  expect(indexOf(tape, [first, { prompt: [1, 2, 3], response: [5, 6, 8] }])).toBeNull();
});

it('does not mind what stands behind the last sampled token', () => {
  const tape = tapeOf([1, 2, 3, 4, 9, 9, 5]);
  expect(indexOf(tape, [{ prompt: [1, 2, 3], response: [4, -9, -9, 5, -8] }])).toEqual([0, 1, 2, 3, 4, 5]);
  expect(indexOf(tape, [{ prompt: [1, 2, 3], response: [4, -9, -8, 5] }])).toBeNull();
});

it('never reads a prompt from the record of a sequence that ended with it', () => {
  const tape = tapeOf([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5, 6]);
  const rows = [[], [4], [5, 6]].map((response) => ({ prompt: [1, 2, 3], response }));
  // The first row's record has no last prompt token, and that one predicts what the others begin with.
  expect(indexOf(tape, rows)).toBeNull();
  expect(indexOf(tape, rows.slice(1))).toEqual([2, 3, 4, 4, 8]);
});
