/** A tiny model, data and a reward that a few steps of training can move; made anew in a temporary folder. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { manualSeed } from '@verlet/torch';
import { composeConfig, type PpoConfig } from '../../src/config/index.js';
import { writeParquet } from '../../src/data/index.js';
import { createCausalLM, saveCausalLM } from '../../src/models/index.js';
import { closedVocabulary } from '../../src/models/tokenizer/index.js';

export interface TinySetup {
  folder: string;
  model: string;
  train: string;
  config(...overrides: string[]): PpoConfig;
  /** The same settings as words of a command line. */
  words(...overrides: string[]): string[];
}

export async function tinySetup(): Promise<TinySetup> {
  const folder = mkdtempSync(path.join(tmpdir(), 'verlet-trainer-'));
  const model = path.join(folder, 'model');
  const train = path.join(folder, 'train.parquet');
  const tokenizer = await closedVocabulary(['0 1 2 3 4 5 6 7 8 9 + = ? ####', '#### 1'], {
    folder: model,
    spelling: 'characters',
    chatTemplate:
      '{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}',
  });
  manualSeed(0);
  const policy = createCausalLM({
    model_type: 'qwen2',
    architectures: ['Qwen2ForCausalLM'],
    vocab_size: tokenizer.vocabSize,
    hidden_size: 32,
    intermediate_size: 64,
    num_hidden_layers: 2,
    num_attention_heads: 4,
    num_key_value_heads: 2,
    max_position_embeddings: 128,
    rms_norm_eps: 1e-6,
    rope_theta: 10000,
    tie_word_embeddings: true,
    hidden_act: 'silu',
    eos_token_id: tokenizer.eosTokenId,
  });
  await saveCausalLM(policy, model);
  policy.dispose();
  await writeParquet(
    train,
    Array.from({ length: 64 }, (_, k) => ({
      data_source: 'openai/gsm8k',
      prompt: [{ role: 'user', content: `${k % 10} + ${(k * 7) % 10} = ?` }],
      ability: 'math',
      reward_model: { style: 'rule', ground_truth: String((k % 10) + ((k * 7) % 10)) },
      extra_info: { split: 'train', index: k },
    })),
  );
  const words = (...overrides: string[]): string[] => [
    `data.train_files=${train}`,
    `actor_rollout_ref.model.path=${model}`,
    'data.train_batch_size=8',
    'data.max_prompt_length=24',
    'data.max_response_length=8',
    'actor_rollout_ref.rollout.n=4',
    'actor_rollout_ref.actor.ppo_mini_batch_size=8',
    'actor_rollout_ref.actor.optim.lr=1e-2',
    'critic.optim.lr=1e-2',
    'trainer.total_training_steps=3',
    'trainer.logger=[]',
    'algorithm.adv_estimator=grpo',
    `trainer.default_local_dir=${path.join(folder, 'run')}`,
    ...overrides,
  ];
  return {
    folder,
    model,
    train,
    words,
    config: (...overrides) => composeConfig({ kind: 'ppo', overrides: words(...overrides) }).config,
  };
}

/** Rewards digits: something that any model can learn to say more of. */
export function countsDigits({ solution_str }: { solution_str: string }): number {
  return (solution_str.match(/\d/g) ?? []).length / 8;
}
