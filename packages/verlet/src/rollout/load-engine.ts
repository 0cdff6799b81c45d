/** From a model folder to a running engine, for servers and scripts; trainers build theirs on the model they train. */
import { type DType, isCudaAvailable } from '@verlet/torch';
import { loadCausalLM, readConfigFile } from '../models/checkpoint.js';
import { type EngineOptions, RolloutEngine } from './engine.js';

export interface LoadEngineOptions extends EngineOptions {
  /** `cpu`, `cuda`, `cuda:1` ...; default: the first GPU where there is one. */
  device?: string;
  /** Default: float32 on the CPU, on a GPU what the model was saved in (bfloat16 for float32 ones). */
  dtype?: string;
}

const knownDTypes = ['float32', 'bfloat16', 'float16'] as const;

function chooseDType(wanted: string | undefined, raw: Record<string, unknown>, device: string): DType {
  const known = (name: unknown): DType | undefined => knownDTypes.find((dtype) => dtype === name);
  if (wanted !== undefined) {
    const dtype = known(wanted);
    if (!dtype) throw new RangeError(`dtype is '${wanted}'; known: ${knownDTypes.join(', ')}`);
    return dtype;
  }
  if (device === 'cpu') return 'float32';
  const saved = known(raw.dtype ?? raw.torch_dtype);
  return saved === undefined || saved === 'float32' ? 'bfloat16' : saved;
}

/**
 * @example
 * const engine = await loadEngine('./model', { tokenizer: await Tokenizer.load('./model') });
 * const { tokenIds } = await engine.submit({ promptIds: [1, 2, 3] }).output;
 */
export async function loadEngine(folder: string, options: LoadEngineOptions = {}): Promise<RolloutEngine> {
  const { device: wanted, dtype, ...rest } = options;
  const device = wanted === undefined ? (isCudaAvailable() ? 'cuda:0' : 'cpu') : wanted === 'cuda' ? 'cuda:0' : wanted;
  const { raw } = await readConfigFile(folder);
  const model = await loadCausalLM(folder, { device, dtype: chooseDType(dtype, raw, device) });
  model.setTrainable(false);
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
  const engine = new RolloutEngine(model, given);
  engine.onClosed = () => model.dispose();
  return engine;
}
