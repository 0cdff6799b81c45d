/** From a model folder to a running engine, for servers and scripts; trainers build theirs on the model they train. */
import { type DType, isCudaAvailable } from '@verlet/torch';
import { loadCausalLM } from '../models/checkpoint.js';
import { loadAdapter } from '../models/lora-files.js';
import { type EngineOptions, RolloutEngine } from './engine.js';

export interface LoadEngineOptions extends EngineOptions {
  /** `cpu`, `cuda`, `cuda:1` ...; default: the first GPU where there is one. */
  device?: string;
  /** Default: float32 on the CPU, bfloat16 on a GPU. */
  dtype?: string;
  /** Adapter in PEFT format. It is added into the weights: sampling then costs what it costs without. */
  adapter?: string | null;
}

const knownDTypes = ['float32', 'bfloat16', 'float16'] as const;

function chooseDType(wanted: string | undefined, device: string): DType {
  if (wanted === undefined) return device === 'cpu' ? 'float32' : 'bfloat16';
  const dtype = knownDTypes.find((known) => known === wanted);
  if (!dtype) throw new RangeError(`dtype is '${wanted}'; known: ${knownDTypes.join(', ')}`);
  return dtype;
}

/**
 * @example
 * const engine = await loadEngine('./model', { tokenizer: await Tokenizer.load('./model') });
 * const { tokenIds } = await engine.submit({ promptIds: [1, 2, 3] }).output;
 */
export async function loadEngine(folder: string, options: LoadEngineOptions = {}): Promise<RolloutEngine> {
  const { device: wanted, dtype, adapter, ...rest } = options;
  const device = wanted === undefined ? (isCudaAvailable() ? 'cuda:0' : 'cpu') : wanted === 'cuda' ? 'cuda:0' : wanted;
  const model = await loadCausalLM(folder, { device, dtype: chooseDType(dtype, device) });
  try {
    if (adapter) (await loadAdapter(model, adapter)).merge();
    model.setTrainable(false);
    const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    const engine = new RolloutEngine(model, given);
    engine.onClosed = () => model.dispose();
    return engine;
  } catch (error) {
    model.dispose();
    throw error;
  }
}
