/** Model folders in and out: what is written loads elsewhere, what does not fit is refused with its reason. */
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { manualSeed, noGrad, openSafetensors, randn, saveSafetensors, type Tensor, zeros } from '@verlet/torch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  applyLora,
  createCausalLM,
  loadCausalLM,
  loadRewardModel,
  loadWeights,
  readConfigFile,
  readModelConfig,
  saveAdapter,
  saveCausalLM,
} from '../../src/models/index.js';
import { expectedOf, families, fixtureFolder, maxDifference, packedLogits } from './fixture.js';
import { type LogitsJob, logitsByTransformers, whyNoPython } from './python.js';

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(path.join(tmpdir(), 'verlet-models-'));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

async function json(folder: string, file = 'config.json'): Promise<Record<string, unknown>> {
  return JSON.parse(await readFile(path.join(folder, file), 'utf8')) as Record<string, unknown>;
}

describe('saving', () => {
  it.each(families)('%s comes back with the same bits and the same config', async (family) => {
    const model = await loadCausalLM(fixtureFolder(family));
    const folder = path.join(scratch, `saved-${family}`);
    await saveCausalLM(model, folder);
    const back = await loadCausalLM(folder);
    for (const [name, value] of back.stateEntries()) expect(value.equal(model.stateDict().get(name)!), name).toBe(true);
    expect(await json(folder)).toEqual({ ...(await json(fixtureFolder(family))), torch_dtype: 'float32' });
    const { raw: _, ...before } = await readConfigFile(fixtureFolder(family));
    const { raw: __, ...after } = await readConfigFile(folder);
    expect(after).toEqual(before);
    expect(openSafetensors(folder).names().sort()).toEqual(openSafetensors(fixtureFolder(family)).names().sort());
    model.dispose();
    back.dispose();
  });

  it('shards a model and reads it back', async () => {
    const model = await loadCausalLM(fixtureFolder('llama2'));
    const folder = path.join(scratch, 'sharded');
    await saveCausalLM(model, folder, { maxShardBytes: 8000 });
    const files = await readdir(folder);
    expect(files.filter((name) => name.endsWith('.safetensors')).length).toBeGreaterThan(2);
    expect(files).toContain('model.safetensors.index.json');
    const back = await loadCausalLM(folder);
    const { rows, tensor } = expectedOf('llama2');
    expect(maxDifference(packedLogits(back, rows), tensor('logits'))).toBeLessThan(1e-4);
    model.dispose();
    back.dispose();
  });

  it('loads float32 weights as bfloat16, saves them so, and stays close', async () => {
    const model = await loadCausalLM(fixtureFolder('qwen3'), { dtype: 'bfloat16' });
    const folder = path.join(scratch, 'half');
    await saveCausalLM(model, folder);
    expect((await json(folder)).dtype).toBe('bfloat16');
    const back = await loadCausalLM(folder, { dtype: 'bfloat16' });
    const { rows, tensor } = expectedOf('qwen3');
    const logits = packedLogits(back, rows);
    expect(logits.dtype).toBe('bfloat16');
    const scale = tensor('logits').abs().max().item();
    expect(maxDifference(logits, tensor('logits'))).toBeLessThan(0.06 * scale);
    expect(logits.equal(packedLogits(model, rows))).toBe(true);
    model.dispose();
    back.dispose();
  });
});

describe('folders that do not fit', () => {
  async function broken(change: (weights: Map<string, Tensor>) => void): Promise<string> {
    const folder = await mkdtemp(path.join(scratch, 'broken-'));
    await cp(fixtureFolder('qwen2'), folder, { recursive: true });
    const reader = openSafetensors(path.join(folder, 'model.safetensors'));
    const weights = new Map(reader.names().map((name) => [name, reader.tensor(name).clone()]));
    change(weights);
    await rm(path.join(folder, 'expected.safetensors'));
    saveSafetensors(path.join(folder, 'model.safetensors'), weights);
    return folder;
  }

  it('names weights that are missing', async () => {
    const folder = await broken((weights) => weights.delete('model.layers.1.self_attn.k_proj.bias'));
    await expect(loadCausalLM(folder)).rejects.toThrow(
      /weights are missing: model\.layers\.1\.self_attn\.k_proj\.bias/,
    );
  });

  it('names weights of the wrong shape', async () => {
    const folder = await broken((weights) => weights.set('model.norm.weight', zeros([3])));
    await expect(loadCausalLM(folder)).rejects.toThrow(/'model\.norm\.weight' has shape \[3\], .* asks for \[16\]/);
  });

  it('names weights of a dtype that nothing here computes with, before it changes any', async () => {
    const folder = await broken((weights) => weights.set('model.norm.weight', zeros([16], { dtype: 'uint8' })));
    const file = path.join(folder, 'model.safetensors');
    const bytes = await readFile(file);
    const end = 8 + Number(bytes.readBigUInt64LE(0));
    const header = Buffer.from(bytes.toString('utf8', 8, end).replace('"U8"', '"F8_E4M3"'));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    await writeFile(file, Buffer.concat([length, header, bytes.subarray(end)]));
    const model = createCausalLM(await json(folder));
    const before = model.headWeight.clone();
    expect(() => loadWeights(model, folder)).toThrow(/'model\.norm\.weight' is F8_E4M3/);
    expect(model.headWeight.equal(before)).toBe(true);
    model.dispose();
  });

  it('names weights that it has no place for, as a bias would be lost in silence', async () => {
    const folder = await broken((weights) => weights.set('model.layers.0.self_attn.o_proj.bias', zeros([16])));
    await expect(loadCausalLM(folder)).rejects.toThrow(/no place for: model\.layers\.0\.self_attn\.o_proj\.bias/);
  });

  it('takes a tied head that a folder stores all the same', async () => {
    const folder = await broken((weights) => weights.set('lm_head.weight', weights.get('model.embed_tokens.weight')!));
    (await loadCausalLM(folder)).dispose();
  });

  it('refuses architectures that it does not know and lists those it does', () => {
    expect(() => readModelConfig({ model_type: 'mamba', architectures: ['MambaForCausalLM'] })).toThrow(
      /'mamba'.*MambaForCausalLM.*Qwen2ForCausalLM.*Qwen3ForCausalLM.*LlamaForCausalLM.*MistralForCausalLM/,
    );
  });

  it('refuses what it would compute wrongly', async () => {
    const raw = await json(fixtureFolder('qwen2'));
    expect(() => readModelConfig({ ...raw, hidden_act: 'gelu' })).toThrow(/gelu/);
    expect(() => readModelConfig({ ...raw, rope_parameters: { rope_type: 'longrope', factor: 4 } })).toThrow(
      /longrope/,
    );
    expect(() => readModelConfig({ ...raw, num_key_value_heads: 3 })).toThrow(/4 heads .* 3 key-value heads/);
    expect(() => readModelConfig({ ...raw, hidden_size: 'big' })).toThrow(/'hidden_size' should be a number/);
  });

  it('says that a folder has no config.json, or a broken one', async () => {
    const folder = await mkdtemp(path.join(scratch, 'empty-'));
    await expect(loadCausalLM(folder)).rejects.toThrow(/no config\.json/);
    await writeFile(path.join(folder, 'config.json'), '{');
    await expect(loadCausalLM(folder)).rejects.toThrow(/not valid JSON/);
  });

  it('does not take a causal model for a reward model', async () => {
    await expect(loadRewardModel(fixtureFolder('qwen2'))).rejects.toThrow(/no 'score\.weight'/);
  });
});

describe('generation_config.json', () => {
  it('adds its end tokens to those of config.json', async () => {
    const folder = path.join(scratch, 'ends');
    await cp(fixtureFolder('qwen2'), folder, { recursive: true });
    await writeFile(path.join(folder, 'generation_config.json'), '{"eos_token_id": [7, 0]}');
    expect((await readConfigFile(folder)).eosTokenIds.sort()).toEqual([0, 7]);
  });
});

const reason = whyNoPython('transformers', 'peft', 'torch');
describe.skipIf(reason !== null)(
  `transformers loads what is saved here${reason ? ` (skipped: ${reason})` : ''}`,
  () => {
    it('with equal logits, plain, merged and as an adapter', async () => {
      const jobs: LogitsJob[] = [];
      const own: Tensor[] = [];
      const save = async (family: string, lora: 'none' | 'merged' | 'adapter') => {
        manualSeed(7);
        const { rows } = expectedOf(family);
        const model = await loadCausalLM(fixtureFolder(family));
        const folder = path.join(scratch, `for-python-${family}-${lora}`);
        if (lora !== 'none') {
          const applied = applyLora(model, { rank: 3, alpha: 7, rslora: true, excludeModules: ['k_proj'] });
          for (const [, adapter] of applied.adapters())
            noGrad(() => adapter.lora_B.copy_(randn(adapter.lora_B.shape).mul(0.3)));
        }
        if (lora === 'adapter') {
          await saveAdapter(model, folder, { baseModel: fixtureFolder(family) });
          jobs.push({ folder: fixtureFolder(family), adapter: folder, input_ids: rows });
        } else {
          await saveCausalLM(model, folder, family === 'llama2' ? { maxShardBytes: 8000 } : {});
          jobs.push({ folder, input_ids: rows });
        }
        own.push(packedLogits(model, rows));
        model.dispose();
      };
      for (const family of families) await save(family, 'none');
      await save('qwen2', 'merged');
      await save('llama3', 'adapter');
      const fresh = createCausalLM(await json(fixtureFolder('mistral')));
      const folder = path.join(scratch, 'for-python-fresh');
      await saveCausalLM(fresh, folder);
      jobs.push({ folder, input_ids: expectedOf('mistral').rows });
      own.push(packedLogits(fresh, expectedOf('mistral').rows));

      for (const [k, rows] of logitsByTransformers(jobs).entries()) {
        const values = own[k]!.toFloat32Array();
        const wanted = rows.flat();
        expect(wanted.length).toBe(values.length);
        const worst = wanted.reduce((most, value, at) => Math.max(most, Math.abs(value - values[at]!)), 0);
        expect(worst, JSON.stringify({ ...jobs[k], input_ids: undefined })).toBeLessThan(1e-4);
      }
    });
  },
);
if (reason) console.warn(`comparison with transformers skipped: ${reason}`);
