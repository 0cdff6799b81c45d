import { type ModelFamily, numberIn } from '../config.js';

/** Mistral: Llama with a sliding window on every layer, where the file gives one. */
export const mistral: ModelFamily = {
  name: 'mistral',
  modelTypes: ['mistral'],
  architecture: 'MistralForCausalLM',
  read: (raw) => ({
    slidingWindows: new Array<number | null>(numberIn(raw, 'num_hidden_layers')).fill(
      typeof raw.sliding_window === 'number' ? raw.sliding_window : null,
    ),
  }),
};
