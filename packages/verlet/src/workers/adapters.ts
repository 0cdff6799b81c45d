/** The adapter that a model's settings ask for. */
import type { nn } from '@verlet/torch';
import { resolveModel } from '../models/hub/index.js';
import { applyLora, type Lora } from '../models/lora.js';
import { loadAdapter } from '../models/lora-files.js';

export interface AdapterSettings {
  lora_rank: number;
  lora_alpha: number;
  target_modules: string | string[];
  exclude_modules: string | string[] | null;
  lora_adapter_path: string | null;
}

/** Puts the configured adapter on a model and freezes the rest; null when all of the model is trained. */
export async function adaptModel(model: nn.Module, settings: AdapterSettings): Promise<Lora | null> {
  if (settings.lora_adapter_path) return loadAdapter(model, await resolveModel(settings.lora_adapter_path));
  if (settings.lora_rank === 0) return null;
  return applyLora(model, {
    rank: settings.lora_rank,
    alpha: settings.lora_alpha,
    targetModules: settings.target_modules,
    excludeModules: settings.exclude_modules,
  });
}
