import type { ModelFamily } from '../config.js';
import { qwenWindows } from './qwen2.js';

/** Qwen3 (dense): no biases, RMS norm on each head of q and k, an explicit head size. */
export const qwen3: ModelFamily = {
  name: 'qwen3',
  modelTypes: ['qwen3'],
  architecture: 'Qwen3ForCausalLM',
  read: (raw) => ({
    qkNorm: true,
    headDim: typeof raw.head_dim === 'number' ? raw.head_dim : 128,
    slidingWindows: qwenWindows(raw),
  }),
};
