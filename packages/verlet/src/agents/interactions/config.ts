import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { z } from 'zod';
import { instantiate, loadExport } from '../modules.js';
import { gsm8kInteraction } from './gsm8k.js';
import type { Interaction } from './types.js';

const schema = z.object({
  interaction: z.array(
    z.object({
      name: z.string().optional(),
      class_name: z.string(),
      config: z.record(z.string(), z.unknown()).default({}),
    }),
  ),
});

const builtIn: Record<string, Interaction> = {
  'verl.interactions.gsm8k_interaction.Gsm8kInteraction': gsm8kInteraction as Interaction,
  Gsm8kInteraction: gsm8kInteraction as Interaction,
};

/** Reads verl's interaction YAML (`multi_turn.interaction_config_path`). A name that is not given comes from the class. */
export async function loadInteractions(file: string): Promise<Interaction[]> {
  const parsed = schema.safeParse(parse(await readFile(file, 'utf8')));
  if (!parsed.success) throw new Error(`${file}: ${z.prettifyError(parsed.error)}`);
  const loaded: Interaction[] = [];
  for (const entry of parsed.data.interaction) {
    const partner =
      builtIn[entry.class_name] ?? (await instantiate(await loadExport(entry.class_name, file), entry.config));
    if (!isInteraction(partner)) {
      throw new Error(`${file}: ${entry.class_name} must give an object with start() and generateResponse()`);
    }
    const name = entry.name ?? partner.name ?? defaultName(entry.class_name);
    if (loaded.some((other) => other.name === name))
      throw new Error(`${file}: two interactions are named ${JSON.stringify(name)}`);
    loaded.push({
      name,
      start: (kwargs) => partner.start(kwargs),
      generateResponse: (instance, messages) => partner.generateResponse(instance, messages),
      finalize: (instance) => partner.finalize?.(instance),
    });
  }
  return loaded;
}

/** `CoinFlipInteraction` → `coinflip` */
export function defaultName(className: string): string {
  const last = className.split(/[.#/]/).at(-1) ?? className;
  return last.replace(/Interaction$/, '').toLowerCase();
}

function isInteraction(value: unknown): value is Interaction {
  const candidate = value as Partial<Interaction> | null;
  return typeof candidate?.start === 'function' && typeof candidate.generateResponse === 'function';
}
