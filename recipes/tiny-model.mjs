// A model made from nothing for the small recipes: a tokenizer of the words that occur, a Qwen2-shaped transformer, and a short
// SFT that teaches the format of a conversation. What the conversation is good for is left to reinforcement learning.
import { AdamW, manualSeed } from '@verlet/torch';
import { agents, closedVocabulary, createCausalLM, saveCausalLM, supervisedStep } from 'verlet';

/** A turn per message, whoever speaks. Tools are not described: what a tiny model knows of them it learns in SFT. */
export const turnTemplate =
  "{% for message in messages %}<|im_start|>{{ message.role + ' ' + message.content }}<|im_end|>{% endfor %}" +
  '{% if add_generation_prompt %}<|im_start|>assistant {% endif %}';

/**
 * The same with a line break behind the role, for conversations of several turns: a break never joins a word, so the tokens of
 * the whole conversation are those of its turns.
 */
export const lineTemplate =
  "{% for message in messages %}<|im_start|>{{ message.role + '\\n' + message.content }}<|im_end|>{% endfor %}" +
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

export const tinySizes = {
  hidden_size: 64,
  intermediate_size: 192,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
};

/** A small seeded generator (mulberry32): the same numbers on every machine. */
export function generator(seed) {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 4294967296) * below);
  };
}

/** A chat as the trainer records it: every assistant message is learnt, everything else is context. */
export function chatExample(tokenizer, messages) {
  const first = messages.findIndex(({ role }) => role === 'assistant');
  const template = new agents.IncrementalChatTemplate(tokenizer, messages.slice(0, first));
  const parts = [{ ids: template.promptIds(), learnt: 0 }];
  for (let k = first; k < messages.length; ) {
    parts.push({ ids: [...tokenizer.encode(messages[k].content), tokenizer.eosTokenId], learnt: 1 });
    const start = ++k;
    while (k < messages.length && messages[k].role !== 'assistant') k++;
    if (k > start) parts.push({ ids: template.continuationIds(messages.slice(start, k), { closed: true }), learnt: 0 });
  }
  return example(parts);
}

/** A running text that tools write into: the parts with `learnt` are the model's. */
export function textExample(tokenizer, prompt, parts) {
  const template = new agents.IncrementalChatTemplate(tokenizer, prompt);
  return example([
    { ids: template.promptIds(), learnt: 0 },
    ...parts.map(({ text, learnt }) => ({ ids: [...tokenizer.encode(text)], learnt: learnt ? 1 : 0 })),
  ]);
}

function example(parts) {
  return {
    tokenIds: parts.flatMap(({ ids }) => ids),
    lossMask: parts.flatMap(({ ids, learnt }) => ids.map(() => learnt)),
  };
}

/** A transformer for this vocabulary that has learnt nothing yet. */
export function newTinyModel(tokenizer, { sizes = tinySizes, seed = 1 } = {}) {
  manualSeed(seed);
  return createCausalLM({
    model_type: 'qwen2',
    architectures: ['Qwen2ForCausalLM'],
    ...sizes,
    vocab_size: Math.ceil(tokenizer.vocabSize / 8) * 8,
    max_position_embeddings: 512,
    // Five times the usual: a model this small then learns to copy within a hundred steps instead of several hundred.
    initializer_range: 0.1,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    tie_word_embeddings: true,
    hidden_act: 'silu',
    eos_token_id: tokenizer.eosTokenId,
    bos_token_id: null,
    pad_token_id: tokenizer.padTokenId,
  });
}

/**
 * Makes the model and writes it to `folder`. `makeExample(draw, tokenizer, done)` gives one SFT example;
 * `done` is the part of the SFT that is over, from 0 to 1.
 * @returns {Promise<{ loss: number }>} the last loss
 */
export async function makeTinyModel(folder, options) {
  const { texts, makeExample, sizes = tinySizes, steps = 120, batch = 32, learningRate = 4e-3, seed = 1 } = options;
  const { chatTemplate = turnTemplate } = options;
  const tokenizer = await closedVocabulary(texts, { folder, spelling: 'characters', chatTemplate });
  const model = newTinyModel(tokenizer, { sizes, seed });
  const optimizer = new AdamW(model.namedParameters(), { lr: learningRate, weightDecay: 0.01 });
  const draw = generator(seed + 2);
  let loss = 0;
  for (let step = 1; step <= steps; step++) {
    const examples = Array.from({ length: batch }, () => makeExample(draw, tokenizer, step / steps));
    optimizer.lr = learningRate * Math.min(1, step / 20) * (1 - 0.9 * (step / steps));
    ({ loss } = supervisedStep(model, optimizer, [examples], { gradClip: 1 }));
    options.onStep?.(step, steps, loss);
  }
  await saveCausalLM(model, folder);
  optimizer.dispose();
  model.dispose();
  return { loss };
}
