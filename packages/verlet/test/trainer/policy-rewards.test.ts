/** Rewards that look at the policy itself: its per-token numbers, and what it says about a response behind another prompt. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { RewardInput } from '../../src/rewards/index.js';
import { train } from '../../src/trainer/train.js';
import { type TinySetup, tinySetup } from './tiny.js';

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

const run = (name: string): string => `trainer.default_local_dir=${tiny.folder}/${name}`;

describe('rewards from the policy', () => {
  it('gives per-token numbers to a function that asks for them, and the same ones behind the same prompt', async () => {
    const seen: RewardInput[] = [];
    const gaps: number[] = [];
    await train({
      config: tiny.config('trainer.total_training_steps=2', run('needs')),
      rewardNeeds: ['entropy', 'log_probs', 'ref_log_prob'],
      reward: async (input, _options, { scorePolicy }) => {
        seen.push(input);
        const [again] = await scorePolicy([{ promptIds: input.prompt_ids!, responseIds: input.response_ids! }]);
        gaps.push(...again!.logProbs.map((value, k) => Math.abs(value - input.log_probs![k]!)));
        gaps.push(...again!.entropy.map((value, k) => Math.abs(value - input.entropy![k]!)));
        return 0;
      },
    });
    expect(seen).toHaveLength(2 * 8 * 4);
    for (const { response_ids, log_probs, entropy, ref_log_prob, rollout_log_probs } of seen) {
      for (const column of [log_probs, entropy, ref_log_prob]) expect(column).toHaveLength(response_ids!.length);
      Array.from(log_probs!).forEach((value, k) => {
        expect(value).toBeCloseTo(rollout_log_probs![k]!, 4);
      });
      expect(Math.min(...Array.from(entropy!))).toBeGreaterThan(0);
    }
    // The first step's policy is the reference.
    for (const { log_probs, ref_log_prob } of seen.slice(0, 32))
      Array.from(log_probs!).forEach((value, k) => {
        expect(value).toBeCloseTo(ref_log_prob![k]!, 4);
      });
    expect(Math.max(...gaps)).toBeLessThan(1e-4);
  });

  it('reads REWARD_NEEDS of a file, calls a batch function once and validates with the same numbers', async () => {
    const file = path.join(tiny.folder, 'reward.mjs');
    writeFileSync(
      file,
      `export const REWARD_TYPE = 'batch';
       export const REWARD_NEEDS = ['entropy'];
       export async function compute_score(inputs, { other }, { scorePolicy, encodePrompt }) {
         const promptIds = encodePrompt([{ role: 'user', content: other }]);
         const scores = await scorePolicy(inputs.map(({ response_ids }) => ({ promptIds, responseIds: response_ids })));
         return inputs.map(({ log_probs, entropy }, k) => ({
           score: log_probs.reduce((sum, value, at) => sum + value - scores[k].logProbs[at], 0),
           asked: inputs.length,
           entropy: entropy.reduce((sum, value) => sum + value, 0),
         }));
       }`,
    );
    const result = await train({
      config: tiny.config(
        `custom_reward_function.path=${file}`,
        '+custom_reward_function.reward_kwargs.other="1 + 1 = ?"',
        `data.val_files=${tiny.train}`,
        'data.val_max_samples=6',
        'trainer.test_freq=1',
        'trainer.total_training_steps=1',
        run('file'),
      ),
    });
    expect(result.metrics['reward/asked']).toBe(32);
    expect(result.metrics['reward/error_count']).toBe(0);
    expect(result.metrics['critic/score/max']).not.toBe(0);
    expect(result.metrics['val-aux/openai/gsm8k/entropy/mean@1']).toBeGreaterThan(0);
  });

  it('says what is wrong with a need that does not exist', async () => {
    const file = path.join(tiny.folder, 'wrong.mjs');
    writeFileSync(file, "export const REWARD_NEEDS = ['logits']; export const compute_score = () => 0;");
    await expect(train({ config: tiny.config(`custom_reward_function.path=${file}`, run('wrong')) })).rejects.toThrow(
      /REWARD_NEEDS is a list of log_probs, entropy, ref_log_prob; "logits" is none of them/,
    );
  });
});
