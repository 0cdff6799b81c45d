/** An engine for whatever a person named: a folder, a run, an adapter, a hub name, or a server. */
import { UserError } from '../../config/index.js';
import { readConfigFile } from '../../models/checkpoint.js';
import { resolveModel } from '../../models/hub/index.js';
import { Tokenizer } from '../../models/tokenizer/index.js';
import { type Engine, HttpEngine, type LoadEngineOptions, loadEngine } from '../../rollout/index.js';
import { findModel } from '../export/find-model.js';
import { asUserError } from '../sft/model.js';

export interface OpenEngineOptions extends LoadEngineOptions {
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
  await refuseClassifier(found.folder);
  const adapter = given ? await resolveModel(given) : found.adapter;
  // Generation ends where the tokenizer says too: a fine-tuned model may end turns with another token than its base.
  const settings = { ...engineOptions, tokenizer, adapter };
  try {
    return await asUserError(async () => ({ ...base, engine: await loadEngine(found.folder, settings) }));
  } catch (error) {
    if (error instanceof RangeError) throw new UserError(error.message, { cause: error });
    throw error;
  }
}

/** A reward model has the weights of a language model without its head: it would load, and talk nonsense. */
async function refuseClassifier(folder: string): Promise<void> {
  const { raw } = await asUserError(() => readConfigFile(folder));
  const [name = ''] = (raw.architectures as string[] | undefined) ?? [];
  if (name.endsWith('ForSequenceClassification'))
    throw new UserError(
      `${folder} is a ${name}: it scores answers and cannot give any. Train with it: reward_model.enable=true ` +
        `reward_model.model.path=${folder}`,
    );
}
