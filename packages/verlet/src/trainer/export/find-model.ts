/** What a person points at when they say "the model": a run, a checkpoint, an adapter, a folder, a name on the hub. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { expandHome, UserError } from '../../config/index.js';
import { resolveModel } from '../../models/hub/index.js';

export interface FoundModel {
  /** Folder with config.json and weights. */
  folder: string;
  /** Folder with an adapter that goes onto it. */
  adapter: string | null;
}

/**
 * Follows a path inwards: a run folder to its last checkpoint, a checkpoint to its actor, an actor to the Hugging Face folder
 * inside, an adapter to the model it was made for. `base` names that model where the adapter does not.
 */
export async function findModel(nameOrPath: string, base?: string): Promise<FoundModel> {
  const start = expandHome(nameOrPath);
  if (!existsSync(start)) return { folder: await resolveModel(nameOrPath), adapter: null };
  const folder = await innermost(path.resolve(start));
  if (!existsSync(path.join(folder, 'adapter_config.json'))) {
    if (await isRun(folder))
      throw new UserError(
        `${start} is a run without a checkpoint: it ended before it saved one, or trainer.save_freq is not set`,
      );
    if (existsSync(path.join(folder, 'config.json'))) return { folder, adapter: null };
    throw new UserError(
      `${start} holds no model: there is no config.json, no adapter_config.json and no checkpoint (global_step_N) in it`,
    );
  }
  const name = base ?? (await baseModelOf(folder));
  const found = await findModel(name);
  if (found.adapter)
    throw new UserError(`${folder}: the adapter's base ${name} is an adapter itself; merge that one first`);
  return { folder: found.folder, adapter: folder };
}

/** A run keeps its configuration under the name that a model's has. */
async function isRun(folder: string): Promise<boolean> {
  try {
    const config = JSON.parse(await readFile(path.join(folder, 'config.json'), 'utf8')) as Record<string, unknown>;
    return 'trainer' in config && !('model_type' in config);
  } catch {
    return false;
  }
}

async function innermost(folder: string): Promise<string> {
  const latest = path.join(folder, 'latest_checkpointed_iteration.txt');
  if (existsSync(latest)) {
    const step = path.join(folder, `global_step_${(await readFile(latest, 'utf8')).trim()}`);
    if (!existsSync(step)) throw new UserError(`${latest} names ${step}, which is not there`);
    return innermost(step);
  }
  for (const name of ['actor', 'huggingface'])
    if (existsSync(path.join(folder, name))) return innermost(path.join(folder, name));
  return folder;
}

async function baseModelOf(adapter: string): Promise<string> {
  const file = path.join(adapter, 'adapter_config.json');
  let config: { base_model_name_or_path?: string | null };
  try {
    config = JSON.parse(await readFile(file, 'utf8')) as typeof config;
  } catch (error) {
    throw new UserError(`${file} is not valid JSON: ${(error as Error).message}`);
  }
  if (config.base_model_name_or_path) return config.base_model_name_or_path;
  throw new UserError(`${file} does not say which model the adapter is for; name it with --base`);
}
