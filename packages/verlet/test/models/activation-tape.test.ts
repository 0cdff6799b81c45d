/** What was written down while sampling is the forward pass that training would make. */
import { nn, scope, type Tensor } from '@verlet/torch';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { type CausalLM, type DecoderPass, loadCausalLM, PackedAttention } from '../../src/models/index.js';
import { recordedHidden, recordWidth, resumePass } from '../../src/models/whole-pass.js';
import { ActivationTape } from '../../src/rollout/activation-tape.js';
import { RolloutEngine } from '../../src/rollout/index.js';
import { families, fixtureFolder, maxDifference } from './fixture.js';

const prompts = [
  [3, 9, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4],
  [2, 7, 1, 8, 2, 8],
];
const samples = 3;

async function sampled(engine: RolloutEngine, maxTokens = 24): Promise<number[][]> {
  return Promise.all(
    prompts.flatMap((promptIds, prompt) =>
      Array.from({ length: samples }, async (_, sampleIndex) => {
        const sampling = { maxTokens: maxTokens - prompt, ignoreEos: true, seed: 5 };
        const { tokenIds } = await engine.submit({ promptIds, sampleIndex, sampling }).output;
        return [...promptIds, ...tokenIds];
      }),
    ),
  );
}

/** Prompts once, then the answers; every token but the last of a sequence is wanted. */
function layOut(sequences: number[][]) {
  const ids = [...prompts.flat()];
  const lengths = prompts.map((prompt) => prompt.length);
  const prefixes = prompts.map(() => -1);
  const wanted: number[] = [];
  for (const [k, tokens] of sequences.entries()) {
    const prompt = Math.floor(k / samples);
    const answer = tokens.slice(prompts[prompt]!.length);
    wanted.push(prompt === 0 ? prompts[0]!.length - 1 : prompts.flat().length - 1);
    for (let t = 0; t < answer.length - 1; t++) wanted.push(ids.length + t);
    ids.push(...answer);
    lengths.push(answer.length);
    prefixes.push(prompt);
  }
  return { ids, lengths, prefixes, wanted };
}

function rowsOf(tape: ActivationTape, sequences: number[][]): Int32Array {
  const found = sequences.map((tokens) => tape.find(Int32Array.from(tokens))!);
  const rows = prompts.flatMap((prompt, k) => [...found[k * samples]!.subarray(0, prompt.length)]);
  for (const [k, own] of found.entries()) {
    const answer = [...own.subarray(prompts[Math.floor(k / samples)]!.length)];
    rows.push(...answer, answer.at(-1)!);
  }
  return Int32Array.from(rows);
}

function results(model: CausalLM, pass: DecoderPass): Tensor[] {
  const hidden = pass.hidden.clone();
  pass.backward(pass.hidden.cos());
  const gradients = [...model.model.parameters()].map((parameter) => parameter.gradient!.clone());
  model.clearGradients();
  return [hidden, ...gradients];
}

describe.each(families.filter((family) => family !== 'llama-biases'))('a tape of %s', (family) => {
  const loaded = loadCausalLM(fixtureFolder(family));
  afterAll(async () => (await loaded).dispose());

  it('has the states that a forward pass gives, and its gradients', async () => {
    const model = await loaded;
    const tape = ActivationTape.of(model, 2 ** 26)!;
    const engine = new RolloutEngine(model, { tape, maxModelLength: 64, maxNumSeqs: 4, cacheBytes: 2 ** 20 });
    const sequences = await sampled(engine);
    await engine.sleep();
    scope(() => {
      const { ids, lengths, prefixes, wanted } = layOut(sequences);
      const context = new PackedAttention(lengths, 'cpu', prefixes);
      const [inputIds, rows] = [nn.indexTensor(ids), nn.indexTensor(wanted)];
      const recorded = tape.recorded(rowsOf(tape, sequences));
      const got = results(model, resumePass(model.model, inputIds, context, rows, recorded));
      const made = results(model, model.model.forwardForTraining(inputIds, context, { rows, whole: false }));
      for (const [k, tensor] of got.entries()) {
        const size = Math.max(1, made[k]!.abs().max().item());
        expect(maxDifference(tensor, made[k]!) / size, `${k}`).toBeLessThan(2e-5);
      }
      context.dispose();
    });
    await engine.close();
    tape.dispose();
  });
});

/** Answers of all lengths, of which some end at once; small caches throw sequences out, small tapes end on the way. */
const runs = fc.record({
  tokensPerStep: fc.constantFrom(1, 3, 8),
  blocks: fc.constantFrom(12, 64),
  tapeRows: fc.constantFrom(100, 4096),
  rounds: fc.array(
    fc.array(
      fc.record({
        prompt: fc.integer({ min: 1, max: 40 }),
        limits: fc.array(fc.integer({ min: 1, max: 24 }), { minLength: 1, maxLength: 4 }),
        stop: fc.boolean(),
      }),
      { minLength: 1, maxLength: 4 },
    ),
    { minLength: 1, maxLength: 3 },
  ),
});

describe('a tape', () => {
  const loaded = loadCausalLM(fixtureFolder('qwen3'));
  afterAll(async () => (await loaded).dispose());

  it('gives no sequence the records of another, however its tokens came', async () => {
    const model = await loaded;
    const { config } = model;
    const blockBytes = 2 * config.numLayers * 16 * config.numKvHeads * config.headDim * 4;
    let found = 0;
    await fc.assert(
      fc.asyncProperty(runs, async ({ tokensPerStep, blocks, tapeRows, rounds }) => {
        const tape = ActivationTape.of(model, tapeRows * 4 * recordWidth(config))!;
        const cacheBytes = blocks * blockBytes;
        const engine = new RolloutEngine(model, { tape, tokensPerStep, maxModelLength: 64, maxNumSeqs: 6, cacheBytes });
        for (const [round, groups] of rounds.entries()) {
          const outputs = groups.flatMap(({ prompt, limits, stop }, group) => {
            const promptIds = Array.from({ length: prompt }, (_, k) => (k * (5 + round) + 3 * group) % 40);
            return limits.map(async (maxTokens, sampleIndex) => {
              const stopTokenIds = stop ? [1, 2, 3, 4, 5, 6, 7, 8] : [];
              const sampling = { maxTokens, stopTokenIds, ignoreEos: true, seed: round };
              const { tokenIds } = await engine.submit({ promptIds, sampleIndex, sampling }).output;
              return [...promptIds, ...tokenIds];
            });
          });
          for (const tokens of await Promise.all(outputs)) {
            const rows = tape.find(Int32Array.from(tokens));
            if (!rows) {
              expect(tapeRows).toBe(100);
              continue;
            }
            found++;
            scope(() => {
              const context = new PackedAttention([rows.length]);
              const every = nn.indexTensor(Int32Array.from(rows.keys()));
              const got = recordedHidden(model.model, tape.recorded(rows), every);
              const made = model.model.forward(nn.indexTensor(tokens.slice(0, -1)), context);
              expect(maxDifference(got, made)).toBeLessThan(2e-5);
              context.dispose();
            });
          }
        }
        await engine.close();
        tape.dispose();
      }),
      { numRuns: 25 },
    );
    expect(found).toBeGreaterThan(50);
  });
});
