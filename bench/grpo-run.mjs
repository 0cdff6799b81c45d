// What the GRPO benchmarks share: a model with random weights, prompts of made-up words, and the steps over them.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { closedVocabulary, composeConfig, createCausalLM, saveCausalLM, train, writeParquet } from 'verlet';
import { median } from './timing.mjs';

export const vocabularyOf = (count) => Array.from({ length: count }, (_, k) => `w${k.toString(36)}`);

/**
 * Writes tokenizer, model and rows into a folder of its own.
 * @param words what prompts are made of, `promptWords` in each
 * @param texts what the tokenizer is made from
 * @param shape the model's configuration, `options` those of its creation
 */
export async function prepareGrpo({ words, texts, promptWords, rowCount, shape, options }) {
  const folder = mkdtempSync(path.join(tmpdir(), 'verlet-bench-'));
  const [model, data] = [path.join(folder, 'model'), path.join(folder, 'train.parquet')];
  const tokenizer = await closedVocabulary(texts, { folder: model, spelling: 'characters' });
  const policy = createCausalLM(
    {
      architectures: ['Qwen2ForCausalLM'],
      ...shape,
      eos_token_id: tokenizer.eosTokenId,
      pad_token_id: tokenizer.padTokenId,
    },
    options,
  );
  const weights = policy.parameterCount();
  await saveCausalLM(policy, model);
  policy.dispose();
  const text = (k) => Array.from({ length: promptWords }, (_, j) => words[(k * 31 + j * 7) % words.length]).join(' ');
  const rows = Array.from({ length: rowCount }, (_, k) => ({
    data_source: 'bench',
    prompt: [{ role: 'user', content: text(k) }],
    reward_model: { style: 'rule', ground_truth: '' },
    extra_info: { index: k },
  }));
  await writeParquet(data, rows);
  const promptTokens = tokenizer.encodeChat(rows[0].prompt, { addGenerationPrompt: true }).length;
  return { folder, model, data, weights, promptTokens, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Takes one step that warms up and then `steps`. @returns the median of a metric over those */
export async function runGrpo({ folder, model, data }, { prompts, samples, newTokens, steps, overrides, reward }) {
  const { config } = composeConfig({
    kind: 'ppo',
    overrides: [
      `data.train_files=${data}`,
      `actor_rollout_ref.model.path=${model}`,
      `data.train_batch_size=${prompts}`,
      `data.max_response_length=${newTokens}`,
      `actor_rollout_ref.rollout.n=${samples}`,
      `actor_rollout_ref.actor.ppo_mini_batch_size=${prompts}`,
      'actor_rollout_ref.rollout.ignore_eos=true',
      'algorithm.adv_estimator=grpo',
      `trainer.total_training_steps=${steps + 1}`,
      'trainer.logger=[]',
      `trainer.default_local_dir=${path.join(folder, 'run')}`,
      ...overrides,
    ],
  });
  const seen = [];
  await train({ config, reward, trackers: [{ name: 'bench', log: (metrics) => void seen.push(metrics) }] });
  return (key) => median(seen.slice(1).map((metrics) => metrics[key] ?? 0));
}
