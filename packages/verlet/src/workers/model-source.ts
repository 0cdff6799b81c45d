/** A model as its settings describe it: folder, tokenizer with its chat template, and configuration with what replaces parts of it. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expandHome, UserError } from '../config/index.js';
import { copyTokenizerFiles, readConfigFile } from '../models/checkpoint.js';
import { type ModelConfig, readModelConfig } from '../models/config.js';
import { resolveModel } from '../models/hub/index.js';
import { Tokenizer } from '../models/tokenizer/index.js';

export interface ModelSettings {
  hf_config_path: string | null;
  override_config: Record<string, unknown>;
}

export interface TokenizerSettings {
  path: string;
  tokenizer_path: string | null;
  custom_chat_template: string | null;
}

/** The tokenizer of a model to train, with the template that its settings give it. */
export async function openTokenizer(settings: TokenizerSettings): Promise<Tokenizer> {
  const folder = await resolveModel(settings.tokenizer_path ?? settings.path);
  const template = settings.custom_chat_template;
  return Tokenizer.load(folder, template ? { chatTemplate: await readTemplate(template) } : {});
}

/** A template is given as the name of a file or as its text. */
export async function readTemplate(template: string): Promise<string> {
  const file = expandHome(template);
  if (existsSync(file)) return readFile(file, 'utf8');
  if (/\{[{%]/.test(template)) return template;
  throw new UserError(`the chat template ${JSON.stringify(template)} is neither a file nor a Jinja text`, {
    exitCode: 2,
  });
}

/** `config.json` of the weights in `folder`, or of another folder, with the values that replace its own. */
export async function configOf(folder: string, settings: ModelSettings): Promise<ModelConfig> {
  const given = await readConfigFile(settings.hf_config_path ? await resolveModel(settings.hf_config_path) : folder);
  if (Object.keys(settings.override_config).length === 0) return given;
  const changed = readModelConfig({ ...given.raw, ...settings.override_config });
  return { ...changed, eosTokenIds: given.eosTokenIds };
}

/** Puts the tokenizer that a model was trained with beside it, where the settings name another than the model's own. */
export async function saveTokenizerChoice(folder: string, settings: TokenizerSettings): Promise<void> {
  const { tokenizer_path: other, custom_chat_template: template } = settings;
  if (other) await copyTokenizerFiles(await resolveModel(other), folder);
  if (template) await writeFile(path.join(folder, 'chat_template.jinja'), await readTemplate(template));
}
