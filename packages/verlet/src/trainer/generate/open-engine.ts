/** An engine for whatever a person named: a folder, a run, an adapter, a hub name, or a server. */
import { type DType, isCudaAvailable } from '@verlet/torch';
import { UserError } from '../../config/index.js';
import { loadCausalLM, readConfigFile } from '../../models/checkpoint.js';
import { loadAdapter } from '../../models/lora-files.js';
import { Tokenizer } from '../../models/tokenizer/index.js';
import { type Engine, HttpEngine, type LoadEngineOptions, loadEngine, RolloutEngine } from '../../rollout/index.js';
import { findModel } from '../export/find-model.js';
import { asUserError } from '../sft/model.js';

export interface OpenEngineOptions extends LoadEngineOptions {
  /** Adapter to apply, in PEFT format. */
  adapter?: string | null;
  /** Tokenizer folder when it is not beside the model. */
  tokenizerPath?: string | null;
  /** Sample from this server instead; the model named is then needed for its tokenizer only. */
  server?: { baseUrl: string; apiKey?: string };
}

export interface OpenedEngine {
  engine: Engine;
  tokenizer: Tokenizer;
  /** Where model and tokenizer were found. */
  folder: string;
}

export async function openEngine(model: string, options: OpenEngineOptions = {}): Promise<OpenedEngine> {
  const { adapter: given, tokenizerPath, server, ...engineOptions } = options;
  const found = await findModel(model);
  const tokenizer = await Tokenizer.load(tokenizerPath ? (await findModel(tokenizerPath)).folder : found.folder);
  const base = { folder: found.folder, tokenizer };
  if (server) {
    const { eosTokenIds: endTokenIds } = tokenizer;
    return { ...base, engine: await HttpEngine.connect({ ...server, endTokenIds }) };
  }
  const adapter = given ?? found.adapter;
  // Generation ends where the tokenizer says too: a fine-tuned model may end turns with another token than its base.
  const settings = { ...engineOptions, tokenizer };
  try {
    return await asUserError(async () => ({
      ...base,
      engine: adapter ? await adaptedEngine(found.folder, adapter, settings) : await loadEngine(found.folder, settings),
    }));
  } catch (error) {
    if (error instanceof RangeError) throw new UserError(error.message, { cause: error });
    throw error;
  }
}

/** The adapter is added into the weights: sampling then costs what it costs without. */
async function adaptedEngine(folder: string, adapter: string, options: LoadEngineOptions): Promise<RolloutEngine> {
  const { device: wanted, dtype, ...rest } = options;
  const device = wanted === undefined ? (isCudaAvailable() ? 'cuda:0' : 'cpu') : wanted === 'cuda' ? 'cuda:0' : wanted;
  const model = await loadCausalLM(folder, {
    device,
    dtype: (dtype as DType | undefined) ?? (device === 'cpu' ? 'float32' : 'bfloat16'),
  });
  try {
    (await loadAdapter(model, adapter)).merge();
    model.setTrainable(false);
    const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    const engine = new RolloutEngine(model, given);
    engine.onClosed = () => model.dispose();
    return engine;
  } catch (error) {
    model.dispose();
    throw error;
  }
}
