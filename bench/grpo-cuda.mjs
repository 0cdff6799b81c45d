#!/usr/bin/env node
// GRPO steps on a GPU with a Qwen2.5-0.5B shape and random weights: the time of each phase, tokens per second, and the share of
// the card's bf16 peak that the update reaches.
//   node bench/grpo-cuda.mjs [prompts 64] [samples 8] [new tokens 512] [steps 3]      RECOMPUTE=true, SHARE_PROMPTS=false
import { deviceProperties } from '@verlet/torch';
import { prepareGrpo, runGrpo, vocabularyOf } from './grpo-run.mjs';
import { qwen05b } from './models.mjs';

const [prompts = 64, samples = 8, newTokens = 512, steps = 3] = process.argv.slice(2).map(Number);
const peak = 990e12;
const words = vocabularyOf(400);
const made = await prepareGrpo({
  words,
  texts: [` ${words.join(' ')}`],
  promptWords: 90,
  rowCount: prompts * (steps + 1),
  shape: qwen05b,
  options: { dtype: 'bfloat16', device: 'cuda:0' },
});
const { weights, promptTokens } = made;
const median = await runGrpo(made, {
  prompts,
  samples,
  newTokens,
  steps,
  reward: ({ response_ids }) => (response_ids[0] % 7) / 7,
  overrides: [
    'data.max_prompt_length=512',
    `actor_rollout_ref.rollout.max_num_seqs=${Math.min(1024, prompts * samples)}`,
    'actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768',
    `actor_rollout_ref.model.enable_gradient_checkpointing=${process.env.RECOMPUTE ?? 'false'}`,
    `actor_rollout_ref.model.share_prompts=${process.env.SHARE_PROMPTS ?? 'true'}`,
    'trainer.device=cuda',
  ],
});
made.remove();
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
