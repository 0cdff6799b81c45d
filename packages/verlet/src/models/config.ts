/** What a decoder-only model is, read from a Hugging Face `config.json`; and the families that can be read. */

export interface RopeScaling {
  type: 'llama3' | 'linear' | 'yarn';
  factor: number;
  lowFreqFactor?: number;
  highFreqFactor?: number;
  originalMaxPositionEmbeddings?: number;
  /** YaRN: how many turns within the original length mark the ends of the blend. */
  betaFast?: number;
  betaSlow?: number;
  /** YaRN: cosines and sines are multiplied by it. */
  attentionFactor?: number;
}

export interface ModelConfig {
  /** Name of the family that read it. */
  family: string;
  vocabSize: number;
  hiddenSize: number;
  intermediateSize: number;
  numLayers: number;
  numHeads: number;
  numKvHeads: number;
  headDim: number;
  rmsNormEps: number;
  ropeTheta: number;
  ropeScaling: RopeScaling | null;
  maxPositionEmbeddings: number;
  tieWordEmbeddings: boolean;
  /** Bias on the q, k and v projections. */
  qkvBias: boolean;
  /** Bias on the output projection of attention. */
  outputBias: boolean;
  mlpBias: boolean;
  /** RMS norm over each head of q and k before the rotary embedding. */
  qkNorm: boolean;
  /** Files hold q, k and v as `qkv_proj`, gate and up as `gate_up_proj`. */
  fusedProjections: boolean;
  /** Keys that far back or further are not seen; null where a layer sees all. One entry per layer. */
  slidingWindows: (number | null)[];
  initializerRange: number;
  eosTokenIds: number[];
  bosTokenId: number | null;
  padTokenId: number | null;
  /** The file as it was read, so that saving writes back what we do not use. */
  raw: Record<string, unknown>;
}

/** A family turns its own `config.json` into the common form. A new family is one file with one of these. */
export interface ModelFamily {
  name: string;
  /** Values of `model_type`. */
  modelTypes: readonly string[];
  /** The `architectures` entry for a causal language model. */
  architecture: string;
  read(raw: Record<string, unknown>): Partial<ModelConfig>;
}

const families: ModelFamily[] = [];

export function registerFamily(family: ModelFamily): void {
  families.push(family);
}

export function supportedArchitectures(): string[] {
  return families.map((family) => `${family.architecture} (model_type ${family.modelTypes.join(', ')})`);
}

export class UnsupportedModelError extends Error {
  override readonly name = 'UnsupportedModelError';
}

export function numberIn(raw: Record<string, unknown>, key: string, fallback?: number): number {
  const value = raw[key] ?? fallback;
  if (typeof value !== 'number')
    throw new UnsupportedModelError(`config.json: '${key}' should be a number, it is ${JSON.stringify(value)}`);
  return value;
}

function idsOf(value: unknown): number[] {
  return (Array.isArray(value) ? value : [value]).filter((id): id is number => typeof id === 'number');
}

function readRopeScaling(raw: Record<string, unknown>): RopeScaling | null {
  const scaling = (raw.rope_scaling ?? raw.rope_parameters) as Record<string, unknown> | null | undefined;
  const type = scaling?.rope_type ?? scaling?.type;
  if (!scaling || type === undefined || type === 'default') return null;
  if (type === 'linear') return { type, factor: numberIn(scaling, 'factor') };
  if (type === 'llama3')
    return {
      type,
      factor: numberIn(scaling, 'factor'),
      lowFreqFactor: numberIn(scaling, 'low_freq_factor'),
      highFreqFactor: numberIn(scaling, 'high_freq_factor'),
      originalMaxPositionEmbeddings: numberIn(scaling, 'original_max_position_embeddings'),
    };
  if (type === 'yarn') return readYarn(raw, scaling);
  throw new UnsupportedModelError(
    `config.json: rope scaling '${String(type)}' is not supported; known: default, linear, llama3, yarn`,
  );
}

function readYarn(raw: Record<string, unknown>, scaling: Record<string, unknown>): RopeScaling {
  const factor = numberIn(scaling, 'factor');
  if (scaling.mscale || scaling.mscale_all_dim || scaling.truncate === false)
    throw new UnsupportedModelError('config.json: yarn with mscale or without truncation is not supported');
  return {
    type: 'yarn',
    factor,
    originalMaxPositionEmbeddings: numberIn(
      scaling,
      'original_max_position_embeddings',
      numberIn(raw, 'max_position_embeddings'),
    ),
    betaFast: numberIn(scaling, 'beta_fast', 32),
    betaSlow: numberIn(scaling, 'beta_slow', 1),
    attentionFactor: numberIn(scaling, 'attention_factor', factor <= 1 ? 1 : 0.1 * Math.log(factor) + 1),
  };
}

/** Reads a `config.json`. Unknown architectures are refused with the list of known ones. */
export function readModelConfig(raw: Record<string, unknown>): ModelConfig {
  const type = raw.model_type;
  const family = families.find((candidate) => candidate.modelTypes.includes(String(type)));
  if (!family)
    throw new UnsupportedModelError(
      `model_type '${String(type)}' (architectures ${JSON.stringify(raw.architectures ?? null)}) is not supported. Supported: ${supportedArchitectures().join('; ')}`,
    );
  const hiddenSize = numberIn(raw, 'hidden_size');
  const numHeads = numberIn(raw, 'num_attention_heads');
  const numLayers = numberIn(raw, 'num_hidden_layers');
  const parameters = raw.rope_parameters as Record<string, unknown> | undefined;
  const common: ModelConfig = {
    family: family.name,
    vocabSize: numberIn(raw, 'vocab_size'),
    hiddenSize,
    intermediateSize: numberIn(raw, 'intermediate_size'),
    numLayers,
    numHeads,
    numKvHeads: numberIn(raw, 'num_key_value_heads', numHeads),
    headDim: typeof raw.head_dim === 'number' ? raw.head_dim : hiddenSize / numHeads,
    rmsNormEps: numberIn(raw, 'rms_norm_eps', 1e-6),
    ropeTheta: numberIn(raw, 'rope_theta', typeof parameters?.rope_theta === 'number' ? parameters.rope_theta : 10000),
    ropeScaling: readRopeScaling(raw),
    maxPositionEmbeddings: numberIn(raw, 'max_position_embeddings', 32768),
    tieWordEmbeddings: raw.tie_word_embeddings === true,
    qkvBias: raw.attention_bias === true,
    outputBias: raw.attention_bias === true,
    mlpBias: raw.mlp_bias === true,
    qkNorm: false,
    fusedProjections: false,
    slidingWindows: new Array<number | null>(numLayers).fill(null),
    initializerRange: numberIn(raw, 'initializer_range', 0.02),
    eosTokenIds: idsOf(raw.eos_token_id),
    bosTokenId: idsOf(raw.bos_token_id)[0] ?? null,
    padTokenId: idsOf(raw.pad_token_id)[0] ?? null,
    raw,
  };
  const config = { ...common, ...family.read(raw) };
  if (raw.hidden_act !== undefined && raw.hidden_act !== 'silu')
    throw new UnsupportedModelError(
      `config.json: hidden_act '${String(raw.hidden_act)}' is not supported; only silu is`,
    );
  if (config.numHeads % config.numKvHeads !== 0)
    throw new UnsupportedModelError(
      `config.json: ${config.numHeads} heads cannot be shared among ${config.numKvHeads} key-value heads`,
    );
  return config;
}
