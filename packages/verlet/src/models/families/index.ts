/** The families that can be loaded; importing this registers them. */
import { registerFamily } from '../config.js';
import { llama } from './llama.js';
import { mistral } from './mistral.js';
import { phi3 } from './phi3.js';
import { qwen2 } from './qwen2.js';
import { qwen3 } from './qwen3.js';

for (const family of [qwen2, qwen3, llama, mistral, phi3]) registerFamily(family);
