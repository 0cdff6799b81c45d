/** Language models from Hugging Face folders: load, run packed or cached, train layer by layer, save. */
export { type AttentionContext, PackedAttention } from './attention.js';
export {
  createCausalLM,
  type LoadOptions,
  loadCausalLM,
  loadWeights,
  readConfigFile,
  saveCausalLM,
} from './checkpoint.js';
export {
  type ModelConfig,
  type ModelFamily,
  readModelConfig,
  registerFamily,
  supportedArchitectures,
  UnsupportedModelError,
} from './config.js';
export { resolveModel } from './hub/index.js';
export { LowRankAdapter, PackedLinear } from './linear.js';
export { applyLora, Lora, type LoraConfig, type LoraOptions, loraOf, setAdapterEnabled } from './lora.js';
export { loadAdapter, saveAdapter } from './lora-files.js';
export {
  type Recompute,
  type RecomputeChoice,
  type RecomputePlan,
  recomputePlan,
} from './recompute.js';
export { loadRewardModel, type RewardModelOptions, SequenceClassifier } from './reward-model.js';
export { CausalLM, Decoder, type DecoderPass, type TrainingOptions } from './transformer.js';
export { loadValueModel, ValueModel } from './value-model.js';
