/** A decoder with one number per token instead of a vocabulary: the critic, and reward models that classify a sequence. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { type DType, nn, openSafetensors, saveSafetensors, scope, type Tensor } from '@verlet/torch';
import { copyTokenizerFiles, filled, type LoadOptions, loadWeights, readConfigFile } from './checkpoint.js';
import type { ModelConfig } from './config.js';
import { PackedLinear } from './linear.js';
import { loraOf } from './lora.js';
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
export async function loadValueModel(folder: string, options: LoadOptions = {}): Promise<ValueModel> {
  const config = options.config ?? (await readConfigFile(folder));
  const model = new ValueModel(config, { dtype: options.dtype ?? 'float32', device: options.device ?? 'cpu' });
  return filled(model, () => {
    using reader = openSafetensors(folder);
    const hasHead = reader.has('score.weight');
    loadWeights(model, path.resolve(folder), (name) => (name.startsWith('score.') && !hasHead ? null : name));
  });
}

/**
 * Writes a folder that `transformers` loads as a classifier with one label: of tokens, as critics are, or of sequences, as reward
 * models are. An adapter is merged into what is written; tokenizer files are taken along from `source` when given.
 */
export async function saveValueModel(
  model: ValueModel,
  folder: string,
  options: { kind: 'token' | 'sequence'; source?: string; padTokenId?: number },
): Promise<void> {
  await mkdir(folder, { recursive: true });
  scope(() =>
    saveSafetensors(
      path.join(folder, 'model.safetensors'),
      loraOf(model)?.mergedEntries(model) ?? model.stateEntries(),
      { metadata: { format: 'pt' } },
    ),
  );
  const { raw, padTokenId } = model.config;
  const [name = 'ForCausalLM'] = (raw.architectures as string[] | undefined) ?? [];
  const ending = options.kind === 'token' ? 'ForTokenClassification' : 'ForSequenceClassification';
  const pad = padTokenId ?? options.padTokenId;
  const config = {
    ...raw,
    architectures: [name.replace(/For[A-Za-z]+$/, ending)],
    id2label: { 0: 'LABEL_0' },
    label2id: { LABEL_0: 0 },
    ...(pad === undefined ? {} : { pad_token_id: pad }),
    torch_dtype: model.dtype,
  };
  await writeFile(path.join(folder, 'config.json'), `${JSON.stringify(config, null, 2)}\n`);
  if (options.source) await copyTokenizerFiles(options.source, folder);
}
