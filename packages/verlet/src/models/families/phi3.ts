import { type ModelFamily, numberIn, UnsupportedModelError } from '../config.js';

/** Phi-3 and Phi-4: Llama whose files hold q, k and v as one matrix, and gate and up as one. */
export const phi3: ModelFamily = {
  name: 'phi3',
  modelTypes: ['phi3'],
  architecture: 'Phi3ForCausalLM',
  read: (raw) => {
    const rope = raw.rope_parameters as Record<string, unknown> | undefined;
    const rotated = raw.partial_rotary_factor ?? rope?.partial_rotary_factor ?? 1;
    if (rotated !== 1)
      throw new UnsupportedModelError(
        `config.json: partial_rotary_factor ${String(rotated)} is not supported; only 1 is`,
      );
    return {
      fusedProjections: true,
      slidingWindows: new Array<number | null>(numberIn(raw, 'num_hidden_layers')).fill(
        typeof raw.sliding_window === 'number' ? raw.sliding_window : null,
      ),
    };
  },
};
