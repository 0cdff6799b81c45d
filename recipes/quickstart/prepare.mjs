// Makes what a run needs and nobody has to download: data, a tokenizer, and a tiny Qwen2-shaped model after a short SFT.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { AdamW, manualSeed } from '@verlet/torch';
import { closedVocabulary, createCausalLM, saveCausalLM, supervisedStep, writeParquet } from 'verlet';
import { generator, problems, row } from './data.mjs';

const template =
  "{% for message in messages %}<|im_start|>{{ message.role + ' ' + message.content }}<|im_end|>{% endfor %}" +
  '{% if add_generation_prompt %}<|im_start|>assistant {% endif %}';

export const sizes = {
  hidden_size: 128,
  intermediate_size: 384,
  num_hidden_layers: 4,
  num_attention_heads: 4,
  num_key_value_heads: 2,
};

/** @returns {Promise<{ model: string, train: string, test: string }>} */
export async function prepare(folder, { seed = 1, sftSteps = 450, onStep = () => {} } = {}) {
  await mkdir(folder, { recursive: true });
  const test = problems(256, seed + 1);
  const held = new Set(test.map((item) => item.question));
  const train = problems(4096, seed, held);
  const files = {
    train: path.join(folder, 'train.parquet'),
    test: path.join(folder, 'test.parquet'),
    model: path.join(folder, 'model'),
  };
  await writeParquet(
    files.train,
    train.map((item, k) => row(item, k, 'train')),
  );
  await writeParquet(
    files.test,
    test.map((item, k) => row(item, k, 'test')),
  );

  const words = [...train, ...test].flatMap((item) => [
    `user ${item.question}`,
    `assistant ${item.answer}`,
    item.answer,
  ]);
  const tokenizer = await closedVocabulary(words, {
    folder: files.model,
    spelling: 'characters',
    chatTemplate: template,
  });

  manualSeed(seed);
  const model = createCausalLM({
    model_type: 'qwen2',
    architectures: ['Qwen2ForCausalLM'],
    ...sizes,
    vocab_size: Math.ceil(tokenizer.vocabSize / 8) * 8,
    max_position_embeddings: 256,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    tie_word_embeddings: true,
    hidden_act: 'silu',
    eos_token_id: tokenizer.eosTokenId,
    bos_token_id: null,
    pad_token_id: tokenizer.padTokenId,
  });
  // Three in five examples answer without the marker; what is left to learn is to say it, and the sums that SFT left shaky.
  const examples = train.map((item, index) => {
    const prompt = [{ role: 'user', content: item.question }];
    const before = tokenizer.encodeChat(prompt, { addGenerationPrompt: true });
    const text = index % 5 < 3 ? item.chatty : item.answer;
    const answer = [...tokenizer.encode(text), tokenizer.eosTokenId];
    return { tokenIds: [...before, ...answer], lossMask: [...Array(before.length).fill(0), ...answer.map(() => 1)] };
  });
  const optimizer = new AdamW(model.namedParameters(), { lr: 3e-3, weightDecay: 0.01 });
  const draw = generator(seed + 2);
  for (let step = 1; step <= sftSteps; step++) {
    const batch = Array.from({ length: 64 }, () => examples[draw(examples.length)]);
    optimizer.lr = 3e-3 * Math.min(1, step / 20) * (1 - 0.9 * (step / sftSteps));
    onStep(step, sftSteps, supervisedStep(model, optimizer, [batch], { gradClip: 1 }).loss);
  }
  await saveCausalLM(model, files.model);
  optimizer.dispose();
  model.dispose();
  return files;
}
