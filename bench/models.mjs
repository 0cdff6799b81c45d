// Shapes that the benchmarks run with random weights.
export const qwen05b = {
  model_type: 'qwen2',
  hidden_size: 896,
  num_hidden_layers: 24,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  intermediate_size: 4864,
  vocab_size: 151936,
  tie_word_embeddings: true,
  max_position_embeddings: 32768,
  rope_theta: 1e6,
  rms_norm_eps: 1e-6,
  hidden_act: 'silu',
};

/** About 4 million parameters. */
export const small4m = {
  ...qwen05b,
  hidden_size: 256,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  intermediate_size: 768,
  vocab_size: 2048,
  max_position_embeddings: 2048,
};

/** About half a million parameters. */
export const tiny05m = {
  ...qwen05b,
  hidden_size: 128,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  intermediate_size: 384,
  vocab_size: 512,
  max_position_embeddings: 2048,
};

/** Parameters that take part in matrix products, the head included, embeddings not. */
export function matmulParameters(config) {
  const { hidden_size: h, num_hidden_layers: layers, intermediate_size: m, vocab_size: v } = config;
  const headDim = h / config.num_attention_heads;
  const qkv = h * (h + 2 * config.num_key_value_heads * headDim);
  return layers * (qkv + h * h + 3 * h * m) + h * v;
}

/** Bytes of keys and values per token over all layers, in bfloat16. */
export function cacheBytesPerToken(config) {
  return (
    2 * 2 * config.num_hidden_layers * config.num_key_value_heads * (config.hidden_size / config.num_attention_heads)
  );
}

/** Numbers in [0, 1) from a seed (mulberry32): the same requests on every machine. */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
