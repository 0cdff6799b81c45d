/** A decoder with one number per token instead of a vocabulary: the critic, and reward models that classify a sequence. */
import path from 'node:path';
import { type DType, nn, openSafetensors, type Tensor } from '@verlet/torch';
import { filled, loadWeights, readConfigFile } from './checkpoint.js';
import type { ModelConfig } from './config.js';
import { PackedLinear } from './linear.js';
import { Decoder, type TransformerOptions } from './transformer.js';

export class ValueModel extends nn.Module {
  readonly model: Decoder;
  /** transformers names the head of a token or sequence classifier `score`. */
  readonly score: PackedLinear;

  constructor(
    readonly config: ModelConfig,
    options: TransformerOptions = {},
  ) {
    super();
    this.model = new Decoder(config, options);
    this.score = new PackedLinear(config.hiddenSize, [{ name: 'score', outFeatures: 1 }], {
      ...options,
      std: config.initializerRange,
    });
  }

  get device(): string {
    return this.model.options.device ?? 'cpu';
  }

  get dtype(): DType {
    return this.model.options.dtype ?? 'float32';
  }

  /** hidden [tokens, features] to values [tokens] float32 */
  values(hidden: Tensor): Tensor {
    return this.score.forward(hidden).squeeze(1).to('float32');
  }
}

/** Loads the body from a causal or classification model's folder; the head too where the folder has one, else it starts fresh. */
export async function loadValueModel(
  folder: string,
  options: { dtype?: DType; device?: string } = {},
): Promise<ValueModel> {
  const config = await readConfigFile(folder);
  const model = new ValueModel(config, { dtype: options.dtype ?? 'float32', device: options.device ?? 'cpu' });
  return filled(model, () => {
    using reader = openSafetensors(folder);
    const hasHead = reader.has('score.weight');
    loadWeights(model, path.resolve(folder), (name) => (name.startsWith('score.') && !hasHead ? null : name));
  });
}
