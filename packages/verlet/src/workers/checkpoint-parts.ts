/** The parts of a worker's checkpoint, saved and read as `checkpoint.save_contents` and `load_contents` say. */
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { AdamW, nn } from '@verlet/torch';
import { type PpoConfig, UserError } from '../config/index.js';
import { loadWeights } from '../models/checkpoint.js';
import { loraOf } from '../models/lora.js';
import { loadAdapter, saveAdapter } from '../models/lora-files.js';

export type CheckpointSettings = Pick<PpoConfig['critic']['checkpoint'], 'save_contents' | 'load_contents'>;
export type Content = CheckpointSettings['save_contents'][number];

export interface CheckpointPart {
  /** File or folder inside the worker's folder. */
  name: string;
  save(target: string): void | Promise<void>;
  /** Without it the part is only for others to read. */
  load?(source: string): void | Promise<void>;
}

const ADAPTER = 'lora_adapter';

export type CheckpointParts = Partial<Record<Content, CheckpointPart>>;

const WORDS: Record<Content, string> = {
  model: 'weights',
  hf_model: 'weights',
  optimizer: 'state of the optimizer',
  extra: 'place in the schedule',
};

/** Weights that are saved as one file or folder. */
export interface WholeModel {
  name: string;
  save(target: string): void | Promise<void>;
}

/**
 * Weights as a run goes on from them: the adapter where there is one, else the whole model. `huggingface` is for others to
 * load, and with an adapter holds it merged into the base, which itself never changes.
 */
export function weightParts(
  model: nn.Module,
  baseModel: string,
  parts: { whole: WholeModel; huggingface: WholeModel },
): CheckpointParts {
  const { whole, huggingface } = parts;
  const isOne = whole.name === huggingface.name;
  const load = (source: string): void => loadWeights(model, source);
  if (!loraOf(model)) return { model: { ...whole, load }, hf_model: isOne ? { ...whole, load } : huggingface };
  const adapter: CheckpointPart = {
    name: ADAPTER,
    async save(target) {
      await saveAdapter(model, target, { baseModel });
      if (isOne) await huggingface.save(path.join(path.dirname(target), huggingface.name));
    },
    load: async (source) => void (await loadAdapter(model, source)),
  };
  return { model: adapter, hf_model: huggingface };
}

export function optimizerPart(optimizer: AdamW): CheckpointPart {
  return {
    name: 'optimizer.safetensors',
    save: (file) => optimizer.save(file),
    load: (file) => optimizer.load(file),
  };
}

/** What is neither weights nor optimizer: the number of finished updates, which the schedule and shuffles follow. */
export function updatesPart(get: () => number, set: (updates: number) => void): CheckpointPart {
  return {
    name: 'state.json',
    save: (file) => writeFile(file, `${JSON.stringify({ updates: get() })}\n`),
    load: async (file) => set((JSON.parse(await readFile(file, 'utf8')) as { updates: number }).updates),
  };
}

export async function saveParts(folder: string, { save_contents }: CheckpointSettings, parts: CheckpointParts) {
  const saved = new Set<string>();
  for (const content of save_contents) {
    const part = parts[content];
    if (!part || saved.has(part.name)) continue;
    await part.save(path.join(folder, part.name));
    saved.add(part.name);
  }
}

/** `key` names the settings in messages, such as `critic.checkpoint`. All parts are looked for before the first is read. */
export async function loadParts(
  folder: string,
  key: string,
  { load_contents }: CheckpointSettings,
  parts: CheckpointParts,
): Promise<void> {
  const refuse = (reason: string): never => {
    throw new UserError(`cannot resume from ${folder}: ${reason}`, { exitCode: 2 });
  };
  if (!existsSync(folder))
    refuse('it is not there: the run was started without this model, or it was deleted (trainer.max_*_ckpt_to_keep)');
  checkAdapter(folder, load_contents, parts, refuse);
  const wanted = new Map<string, { content: Content; part: CheckpointPart }>();
  for (const content of load_contents) {
    const part = parts[content];
    if (part?.load) wanted.set(part.name, { content, part });
  }
  const isThere = (part: CheckpointPart): boolean => existsSync(path.join(folder, part.name));
  for (const { content, part } of wanted.values()) {
    if (isThere(part)) continue;
    const held = (Object.keys(parts) as Content[]).filter((name) => parts[name]!.load && isThere(parts[name]!));
    // Where weights for others and weights to go on from are one folder, one word for it is enough.
    const words = held.filter((name) => name !== 'hf_model' || !held.includes('model'));
    refuse(
      `it holds no ${WORDS[content]} (${part.name}), which ${key}.load_contents asks for as ` +
        `'${content}'; it was saved without (${key}.save_contents). ` +
        (words.length > 0
          ? `${key}.load_contents=[${words.join(',')}] goes on with what is there`
          : 'It holds nothing'),
    );
  }
  for (const { part } of wanted.values()) await part.load!(path.join(folder, part.name));
}

/** Weights of a run with an adapter and of one without do not fit each other, nor do their optimizers. */
function checkAdapter(
  folder: string,
  wanted: readonly Content[],
  parts: CheckpointParts,
  refuse: (reason: string) => never,
): void {
  const has = (name: string): boolean => existsSync(path.join(folder, name));
  const wantsAdapter = parts.model?.name === ADAPTER;
  const instead =
    `or start from ${path.join(folder, 'huggingface')} as the model, with trainer.resume_mode=disable and another ` +
    'trainer.default_local_dir';
  if (wantsAdapter && wanted.includes('model') && !has(ADAPTER) && has('huggingface'))
    refuse(
      `it holds no ${ADAPTER}: it was trained without (lora_rank), or saved without 'model'. Use the same settings, ${instead}`,
    );
  if (!wantsAdapter && wanted.includes('optimizer') && has(ADAPTER))
    refuse(`it was trained with an adapter, this run has none (lora_rank). Use the same settings, ${instead}`);
}
