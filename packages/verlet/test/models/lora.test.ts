/** Adapters: equal to PEFT's in numbers and files; the base stays as it is. */
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AdamW, manualSeed, openSafetensors } from '@verlet/torch';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  applyLora,
  loadAdapter,
  loadCausalLM,
  loadValueModel,
  loraOf,
  saveAdapter,
  saveCausalLM,
  setAdapterEnabled,
} from '../../src/models/index.js';
import { expectedOf, fixtureFolder, maxDifference, packedLogits, trainingPass } from './fixture.js';

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(path.join(tmpdir(), 'verlet-lora-'));
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

const folders = [
  ['lora-all-linear', 'qwen2'],
  ['lora-rslora', 'llama2'],
  ['lora-pattern', 'qwen3'],
] as const;

describe.each(folders)('%s on %s', (name, base) => {
  it('gives the logits and the gradients of PEFT, and the base alone when switched off', async () => {
    const model = await loadCausalLM(fixtureFolder(base));
    const expected = expectedOf(name);
    const plain = packedLogits(model, expected.rows);
    const lora = await loadAdapter(model, fixtureFolder(name));
    expect(maxDifference(packedLogits(model, expected.rows), expected.tensor('logits'))).toBeLessThan(1e-4);
    expect(maxDifference(plain, expected.tensor('logits'))).toBeGreaterThan(1e-2);
    lora.without(() => expect(packedLogits(model, expected.rows).equal(plain)).toBe(true));

    for (const recompute of ['none', 'selective', 'full'] as const) {
      model.clearGradients();
      trainingPass(model, expected.rows, (logits) => logits.logsumexp(-1).sum(), { recompute });
      const wanted = expected.names().filter((key) => key.startsWith('grad.'));
      const own = new Map(
        [...lora.adapters()].flatMap(([at, { lora_A, lora_B }]) => [
          [`grad.${at}.lora_A.weight`, lora_A.gradient!],
          [`grad.${at}.lora_B.weight`, lora_B.gradient!],
        ]),
      );
      expect([...own.keys()].sort()).toEqual(wanted.sort());
      for (const key of wanted) expect(maxDifference(own.get(key)!, expected.tensor(key)), key).toBeLessThan(1e-4);
      const trained = [...model.parameters()].filter((parameter) => parameter.gradient);
      expect(trained.length).toBe(own.size);
    }
    model.dispose();
  });

  it('merges, and unmerges to the same bits', async () => {
    const model = await loadCausalLM(fixtureFolder(base));
    const expected = expectedOf(name);
    const before = new Map([...model.stateEntries()].map(([key, value]) => [key, value.detach().clone()]));
    const lora = await loadAdapter(model, fixtureFolder(name));
    lora.merge();
    expect(maxDifference(packedLogits(model, expected.rows), expected.tensor('logits'))).toBeLessThan(1e-4);
    expect(() => setAdapterEnabled(model, false)).toThrow(/merged/);
    lora.unmerge();
    for (const [key, value] of model.stateEntries()) expect(value.equal(before.get(key)!), key).toBe(true);
    expect(maxDifference(packedLogits(model, expected.rows), expected.tensor('logits'))).toBeLessThan(1e-4);
    model.dispose();
  });

  it('saves a folder equal to PEFT’s, and a merged model that needs no adapter', async () => {
    const model = await loadCausalLM(fixtureFolder(base));
    const expected = expectedOf(name);
    await loadAdapter(model, fixtureFolder(name));
    const merged = path.join(scratch, `${name}-merged`);
    await saveCausalLM(model, merged);
    const alone = await loadCausalLM(merged);
    expect(loraOf(alone)).toBeNull();
    expect(maxDifference(packedLogits(alone, expected.rows), expected.tensor('logits'))).toBeLessThan(1e-4);
    if (name !== 'lora-pattern') {
      const folder = path.join(scratch, name);
      await saveAdapter(model, folder, { baseModel: base });
      const [ours, theirs] = [folder, fixtureFolder(name)].map((at) =>
        openSafetensors(path.join(at, 'adapter_model.safetensors')),
      );
      expect(ours!.names().sort()).toEqual(theirs!.names().sort());
      for (const key of ours!.names()) expect(ours!.tensor(key).equal(theirs!.tensor(key)), key).toBe(true);
      const read = async (at: string) =>
        JSON.parse(await readFile(path.join(at, 'adapter_config.json'), 'utf8')) as Record<string, unknown>;
      expect(await read(fixtureFolder(name))).toMatchObject(await read(folder));
    }
    model.dispose();
    alone.dispose();
  });
});

describe('fresh adapters', () => {
  it('add nothing at first, train alone, and continue from a saved folder', async () => {
    manualSeed(11);
    const model = await loadCausalLM(fixtureFolder('mistral'));
    const { rows } = expectedOf('mistral');
    const plain = packedLogits(model, rows, false);
    const before = new Map([...model.stateEntries()].map(([key, value]) => [key, value.detach().clone()]));
    const lora = applyLora(model, { rank: 4, alpha: 8 });
    expect(packedLogits(model, rows).equal(plain)).toBe(true);
    const optimizer = new AdamW(
      [...model.namedParameters()].filter(([, parameter]) => parameter.trainable),
      { lr: 0.05, weightDecay: 0 },
    );
    const loss = () => packedLogits(model, rows).logsumexp(-1).sum().item();
    const start = loss();
    for (let step = 0; step < 5; step++) {
      model.clearGradients();
      trainingPass(model, rows, (logits) => logits.logsumexp(-1).sum());
      optimizer.step(
        new Map([...model.namedParameters()].filter(([, p]) => p.gradient).map(([key, p]) => [key, p.gradient!])),
      );
    }
    expect(loss()).toBeLessThan(start - 1);
    for (const [key, value] of model.stateEntries()) expect(value.equal(before.get(key)!), key).toBe(true);
    lora.without(() => expect(packedLogits(model, rows, false).equal(plain)).toBe(true));

    const folder = path.join(scratch, 'continued');
    await saveAdapter(model, folder);
    const trained = packedLogits(model, rows);
    const other = await loadCausalLM(fixtureFolder('mistral'));
    const fresh = applyLora(other, { rank: 4, alpha: 8 });
    const held = [...other.parameters()];
    expect(await loadAdapter(other, folder)).toBe(fresh);
    expect([...other.parameters()]).toEqual(held);
    expect(packedLogits(other, rows).equal(trained)).toBe(true);
    for (const owned of [model, other]) owned.dispose();
    optimizer.dispose();
  });

  it('go where PEFT would put them', async () => {
    const paths = async (options: Omit<Parameters<typeof applyLora>[1], 'rank'>) => {
      const model = await loadCausalLM(fixtureFolder('llama2'));
      const found = [...applyLora(model, { rank: 2, ...options }).adapters()].map(([at]) => at);
      model.dispose();
      return found;
    };
    expect(await paths({})).toHaveLength(14);
    expect(await paths({ targetModules: ['q_proj', 'layers.1.mlp.up_proj'] })).toEqual([
      'model.layers.0.self_attn.q_proj',
      'model.layers.1.self_attn.q_proj',
      'model.layers.1.mlp.up_proj',
    ]);
    expect(await paths({ targetModules: '.*mlp.*', excludeModules: ['gate_proj', 'up_proj'] })).toEqual([
      'model.layers.0.mlp.down_proj',
      'model.layers.1.mlp.down_proj',
    ]);
    expect(await paths({ targetModules: /model\.layers\.0\.self_attn\.[kv]_proj/ })).toHaveLength(2);
    await expect(paths({ targetModules: ['lm_head'] })).rejects.toThrow(/'lm_head' is not supported/);
    await expect(paths({ targetModules: ['query'] })).rejects.toThrow(/no module matches .*query.*q_proj/);
  });

  it('leave a value head to be trained, and carry it in their folder', async () => {
    const model = await loadValueModel(fixtureFolder('reward'));
    applyLora(model, { rank: 2 });
    const trainable = [...model.namedParameters()].filter(([, parameter]) => parameter.trainable);
    expect(trainable.filter(([key]) => !key.includes('lora_')).map(([key]) => key)).toEqual(['score.weight']);
    const folder = path.join(scratch, 'critic');
    await saveAdapter(model, folder);
    const other = await loadValueModel(fixtureFolder('qwen2'));
    await loadAdapter(other, folder);
    expect(other.score.weight.equal(model.score.weight)).toBe(true);
    model.dispose();
    other.dispose();
  });
});

describe('adapter folders that do not fit', () => {
  it('are refused with their reason, the model untouched', async () => {
    const model = await loadCausalLM(fixtureFolder('qwen3'));
    await expect(loadAdapter(model, fixtureFolder('qwen3'))).rejects.toThrow(/not an adapter folder/);
    await expect(loadAdapter(model, fixtureFolder('lora-rslora'))).rejects.toThrow(/does not fit.*the model asks for/);
    expect(loraOf(model)).toBeNull();
    const folder = path.join(scratch, 'dora');
    await cp(fixtureFolder('lora-pattern'), folder, { recursive: true });
    const file = path.join(folder, 'adapter_config.json');
    const config = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
    for (const [change, message] of [
      [{ use_dora: true }, /DoRA/],
      [{ bias: 'all' }, /bias 'all'/],
      [{ modules_to_save: ['embed_tokens'] }, /modules_to_save embed_tokens/],
      [{ peft_type: 'IA3' }, /peft_type IA3/],
    ] as const) {
      await writeFile(file, JSON.stringify({ ...config, ...change }));
      await expect(loadAdapter(model, folder)).rejects.toThrow(message);
    }
    applyLora(model, { rank: 2, targetModules: ['q_proj'] });
    await expect(loadAdapter(model, fixtureFolder('lora-pattern'))).rejects.toThrow(/carries another adapter/);
    expect(() => applyLora(model, { rank: 2 })).toThrow(/already has an adapter/);
    model.dispose();
  });
});
