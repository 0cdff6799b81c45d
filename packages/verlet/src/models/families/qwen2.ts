import { type ModelFamily, numberIn } from '../config.js';

/** Qwen2 and Qwen2.5: biases on q, k and v; a sliding window, where switched on, from layer `max_window_layers`. */
export const qwen2: ModelFamily = {
  name: 'qwen2',
  modelTypes: ['qwen2'],
  architecture: 'Qwen2ForCausalLM',
  read: (raw) => ({ qkvBias: true, outputBias: false, slidingWindows: qwenWindows(raw) }),
};

export function qwenWindows(raw: Record<string, unknown>): (number | null)[] {
  const layers = numberIn(raw, 'num_hidden_layers');
  const window = raw.use_sliding_window === true && typeof raw.sliding_window === 'number' ? raw.sliding_window : null;
  const types = raw.layer_types as string[] | undefined;
  const first = numberIn(raw, 'max_window_layers', 28);
  return Array.from({ length: layers }, (_, k) => {
    const slides = types ? types[k] === 'sliding_attention' : k >= first;
    return slides ? window : null;
  });
}
