#!/usr/bin/env node
// GRPO steps on a GPU with a Qwen2.5-0.5B shape and random weights: the time of each phase, tokens per second, and the share of
// the card's bf16 peak that the update reaches.
//   node bench/grpo-cuda.mjs [prompts 64] [samples 8] [new tokens 512] [steps 3]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { deviceProperties } from '@verlet/torch';
import { closedVocabulary, composeConfig, createCausalLM, saveCausalLM, train, writeParquet } from 'verlet';
import { qwen05b } from './models.mjs';

const [prompts = 64, samples = 8, newTokens = 512, steps = 3] = process.argv.slice(2).map(Number);
const peak = 990e12;
const folder = mkdtempSync(path.join(tmpdir(), 'verlet-bench-'));
const model = path.join(folder, 'model');
const words = Array.from({ length: 400 }, (_, k) => `w${k.toString(36)}`);
const tokenizer = await closedVocabulary([` ${words.join(' ')}`], { folder: model, spelling: 'characters' });
const policy = createCausalLM(
  { ...qwen05b, architectures: ['Qwen2ForCausalLM'], eos_token_id: tokenizer.eosTokenId },
  { dtype: 'bfloat16', device: 'cuda:0' },
);
const weights = policy.parameterCount();
await saveCausalLM(policy, model);
policy.dispose();
const text = (k) => Array.from({ length: 90 }, (_, j) => words[(k * 31 + j * 7) % words.length]).join(' ');
const rows = Array.from({ length: prompts * (steps + 1) }, (_, k) => ({
  data_source: 'bench',
  prompt: [{ role: 'user', content: text(k) }],
  reward_model: { style: 'rule', ground_truth: '' },
  extra_info: { index: k },
}));
await writeParquet(path.join(folder, 'train.parquet'), rows);
const promptTokens = tokenizer.encodeChat(rows[0].prompt, { addGenerationPrompt: true }).length;
const { config } = composeConfig({
  kind: 'ppo',
  overrides: [
    `data.train_files=${path.join(folder, 'train.parquet')}`,
    `actor_rollout_ref.model.path=${model}`,
    `data.train_batch_size=${prompts}`,
    'data.max_prompt_length=512',
    `data.max_response_length=${newTokens}`,
    `actor_rollout_ref.rollout.n=${samples}`,
    `actor_rollout_ref.rollout.max_num_seqs=${Math.min(1024, prompts * samples)}`,
    `actor_rollout_ref.actor.ppo_mini_batch_size=${prompts}`,
    'actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768',
    `actor_rollout_ref.model.enable_gradient_checkpointing=${process.env.RECOMPUTE ?? 'false'}`,
    'actor_rollout_ref.rollout.ignore_eos=true',
    'algorithm.adv_estimator=grpo',
    'trainer.device=cuda',
    `trainer.total_training_steps=${steps + 1}`,
    'trainer.logger=[]',
    `trainer.default_local_dir=${path.join(folder, 'run')}`,
  ],
});
const seen = [];
await train({
  config,
  reward: ({ response_ids }) => (response_ids[0] % 7) / 7,
  trackers: [{ name: 'bench', log: (metrics) => void seen.push(metrics) }],
});
rmSync(folder, { recursive: true, force: true });
const median = (key) => {
  const values = seen.slice(1).map((metrics) => metrics[key] ?? 0);
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
};
const sampled = prompts * samples * newTokens;
const trained = prompts * samples * (promptTokens + newTokens);
const update = median('timing_s/update_actor');
const gen = median('timing_s/gen');
console.log(
  `${deviceProperties?.()?.name ?? 'GPU'}, ${(weights / 1e6).toFixed(0)} M parameters, ${prompts} prompts of ${promptTokens} tokens x ${samples} samples x ${newTokens} tokens, median of ${steps} steps`,
);
console.log(
  `  step     ${median('timing_s/step').toFixed(2)} s   ${(trained / median('timing_s/step')).toFixed(0)} tokens/s over all`,
);
console.log(`  sampling ${gen.toFixed(2)} s   ${(sampled / gen).toFixed(0)} tokens/s`);
console.log(`  reward   ${median('timing_s/reward').toFixed(2)} s`);
console.log(
  `  update   ${update.toFixed(2)} s   ${(trained / update).toFixed(0)} tokens/s   ${((100 * 6 * weights * trained) / update / peak).toFixed(1)}% of ${peak / 1e12} TFLOP/s (6 operations a weight and token)`,
);
console.log(
  `  largest difference between sampler and trainer, as probability: ${median('training/rollout_probs_diff_max').toFixed(4)}, mean ${median('training/rollout_probs_diff_mean').toFixed(5)}`,
);
