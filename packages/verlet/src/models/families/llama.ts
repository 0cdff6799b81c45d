import type { ModelFamily } from '../config.js';

/** Llama 2 and 3 (llama3 rope scaling is read by the common part). */
export const llama: ModelFamily = {
  name: 'llama',
  modelTypes: ['llama'],
  architecture: 'LlamaForCausalLM',
  read: () => ({}),
};
