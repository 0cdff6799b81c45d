import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { UserError } from '../../config/errors.js';

/** What the tokenizer-related files of a Hugging Face folder say, read but not interpreted. */
export interface TokenizerFiles {
  folder: string;
  tokenizerJson: TokenizerJson;
  config: Record<string, unknown>;
  specialTokens: Record<string, string>;
  /** By name; the unnamed one is `default`. */
  chatTemplates: Record<string, string>;
  /** `eos_token_id` of generation_config.json. */
  generationEosIds: number[];
}

export interface TokenizerJson {
  model: Record<string, unknown>;
  added_tokens: { id: number; content: string; special: boolean }[];
  decoder: { type: string; decoders?: { type: string }[] } | null;
  [field: string]: unknown;
}

/** The files that together make a tokenizer; `save` copies those that exist. */
export const TOKENIZER_FILES = [
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'chat_template.jinja',
  'chat_template.json',
  'vocab.json',
  'merges.txt',
  'tokenizer.model',
];

export async function readTokenizerFiles(folder: string): Promise<TokenizerFiles> {
  const tokenizerJson = await readJson(join(folder, 'tokenizer.json'));
  if (!tokenizerJson) {
    throw new UserError(
      `${folder} has no tokenizer.json. Verlet reads the "fast" tokenizer file; a folder with only vocab.json or ` +
        `tokenizer.model becomes one with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)`,
    );
  }
  if (typeof tokenizerJson.model !== 'object' || tokenizerJson.model === null) {
    throw new UserError(`${join(folder, 'tokenizer.json')} has no "model" section, so it is not a tokenizer file`);
  }
  tokenizerJson.added_tokens ??= [];
  const config = (await readJson(join(folder, 'tokenizer_config.json'))) ?? {};
  const specialTokensMap = (await readJson(join(folder, 'special_tokens_map.json'))) ?? {};
  const generation = (await readJson(join(folder, 'generation_config.json'))) ?? {};
  return {
    folder,
    tokenizerJson: tokenizerJson as TokenizerJson,
    config,
    specialTokens: { ...specialTokensIn(specialTokensMap), ...specialTokensIn(config) },
    chatTemplates: await readChatTemplates(folder, config),
    generationEosIds: [generation.eos_token_id ?? []].flat().filter((id): id is number => typeof id === 'number'),
  };
}

const SPECIAL_TOKEN_NAMES = [
  'bos_token',
  'eos_token',
  'unk_token',
  'sep_token',
  'pad_token',
  'cls_token',
  'mask_token',
];

/** Special tokens come as strings or as AddedToken objects. */
function specialTokensIn(source: Record<string, unknown>): Record<string, string> {
  const tokens: Record<string, string> = {};
  for (const name of SPECIAL_TOKEN_NAMES) {
    const token = source[name] as string | { content?: unknown } | null | undefined;
    const content = typeof token === 'string' ? token : token?.content;
    if (typeof content === 'string') tokens[name] = content;
  }
  return tokens;
}

/** chat_template.jinja wins over chat_template.json, which wins over the field in tokenizer_config.json. */
async function readChatTemplates(folder: string, config: Record<string, unknown>): Promise<Record<string, string>> {
  const templates: Record<string, string> = {};
  const inJson = await readJson(join(folder, 'chat_template.json'));
  const field = inJson?.chat_template ?? config.chat_template;
  if (typeof field === 'string') templates.default = field;
  else if (Array.isArray(field)) {
    for (const { name, template } of field as { name: string; template: string }[]) templates[name] = template;
  }
  const file = await readText(join(folder, 'chat_template.jinja'));
  if (file !== null) templates.default = file;
  return templates;
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

async function readJson(path: string): Promise<Record<string, unknown> | null> {
  const text = await readText(path);
  if (text === null) return null;
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new UserError(`${path} is not valid JSON: ${(error as Error).message}`);
  }
}
