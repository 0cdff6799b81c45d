// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { describe, expect, it } from 'vitest';
import { DAPO_COMMAND, SEARCH_COMMAND } from '../../../test/fixtures/command-lines.js';
import { batchPlan, composeConfig } from '../index.js';

const needed = ['data.train_files=t.parquet', 'actor_rollout_ref.model.path=m'];
const ppo = (...overrides: string[]) => composeConfig({ kind: 'ppo', overrides: [...needed, ...overrides] });

describe('names of others', () => {
  it('EasyR1: the tree is translated and the renaming reported', () => {
    const { config, renamed, notices } = composeConfig({
      kind: 'ppo',
      overrides: [
        'data.train_files=hiyouga/math12k@train',
        'data.rollout_batch_size=512',
        'data.format_prompt=math.jinja',
        'algorithm.adv_estimator=grpo',
        'algorithm.disable_kl=false',
        'algorithm.use_kl_loss=true',
        'algorithm.kl_penalty=low_var_kl',
        'algorithm.kl_coef=1e-2',
        'worker.actor.global_batch_size=128',
        'worker.actor.micro_batch_size_per_device_for_update=1',
        'worker.actor.micro_batch_size_per_device_for_experience=2',
        'worker.actor.model.model_path=Qwen/Qwen2.5-7B',
        'worker.actor.optim.strategy=adamw',
        'worker.actor.fsdp.enable_full_shard=true',
        'worker.actor.offload.offload_params=true',
        'worker.actor.loss_type=gspo_token',
        'worker.actor.loss_avg_mode=seq',
        'worker.rollout.n=5',
        'worker.rollout.tensor_parallel_size=2',
        'worker.rollout.val_override_config={temperature:0.6,top_p:0.95,n:1}',
        'worker.reward.reward_function=./math.py:compute_score',
        'trainer.val_freq=5',
        'trainer.save_limit=3',
      ],
    });
    expect(config.data).toMatchObject({ train_batch_size: 512, format_prompt: 'math.jinja' });
    expect(config.actor_rollout_ref.model.path).toBe('Qwen/Qwen2.5-7B');
    expect(config.actor_rollout_ref.actor).toMatchObject({
      ppo_mini_batch_size: 128,
      ppo_micro_batch_size_per_gpu: 1,
      use_kl_loss: true,
      kl_loss_type: 'low_var_kl',
      kl_loss_coef: 0.01,
      loss_agg_mode: 'seq-mean-token-mean',
      policy_loss: { loss_mode: 'gspo' },
      optim: { optimizer: 'AdamW' },
    });
    expect(config.actor_rollout_ref.rollout).toMatchObject({
      n: 5,
      log_prob_micro_batch_size_per_gpu: 2,
      val_kwargs: { temperature: 0.6, top_p: 0.95, do_sample: true },
    });
    expect(config.custom_reward_function).toMatchObject({ path: './math.py', name: 'compute_score' });
    expect(config.trainer).toMatchObject({ test_freq: 5, max_actor_ckpt_to_keep: 3 });
    expect(config.algorithm.use_kl_in_reward).toBe(false);
    expect(renamed).toContainEqual({
      from: 'worker.actor.global_batch_size',
      to: ['actor_rollout_ref.actor.ppo_mini_batch_size'],
      family: 'EasyR1',
    });
    expect(notices.filter((notice) => notice.startsWith('renamed: '))).toHaveLength(1);
    expect(notices.filter((notice) => notice.startsWith('accepted, no effect'))).toHaveLength(1);
  });

  it('EasyR1: without use_kl_loss its KL is in the reward, unless disabled', () => {
    const base = ['data.rollout_batch_size=512', 'algorithm.use_kl_loss=false'];
    expect(ppo(...base, 'algorithm.disable_kl=false').config.algorithm.use_kl_in_reward).toBe(true);
    expect(ppo(...base, 'algorithm.disable_kl=true').config.algorithm.use_kl_in_reward).toBe(false);
  });

  it('newer verl, older verl, Search-R1', () => {
    const { config } = ppo(
      'reward.custom_reward_function.path=r.ts',
      'reward.reward_manager.name=dapo',
      'ray_kwargs.ray_init.num_cpus=8',
      'actor_rollout_ref.actor.optim.warmup_style=cosine',
      'actor_rollout_ref.actor.checkpoint.contents=[model]',
      'actor_rollout_ref.rollout.n_agent=5',
      'actor_rollout_ref.actor.state_masking=true',
      'max_turns=4',
      'retriever.topk=5',
      'data.train_data_num=null',
      'data.max_obs_length=500',
      'critic.fsdp.seed=7',
      'algorithm.adv_estimator=grpo',
    );
    expect(config.custom_reward_function.path).toBe('r.ts');
    expect(config.reward_model.reward_manager).toBe('dapo');
    expect(config.ray_init.num_cpus).toBe(8);
    expect(config.actor_rollout_ref.actor).toMatchObject({
      optim: { lr_scheduler_type: 'cosine' },
      checkpoint: { save_contents: ['model'], load_contents: ['model'] },
    });
    expect(config.actor_rollout_ref.rollout.n).toBe(5);
    expect(config).toMatchObject({
      max_turns: 4,
      retriever: { topk: 5 },
      data: { max_obs_length: 500, train_max_samples: -1 },
    });
    expect(config.critic.model.fsdp_config.seed).toBe(7);
  });

  it('Megatron: counterparts are set, the rest says what takes its place', () => {
    const { config, notices } = composeConfig({
      kind: 'ppo',
      files: ['ppo_megatron_trainer'],
      overrides: [
        ...needed,
        'actor_rollout_ref.actor.megatron.tensor_model_parallel_size=4',
        'actor_rollout_ref.actor.megatron.seed=9',
        'actor_rollout_ref.actor.optim.lr_decay_style=cosine',
        'actor_rollout_ref.actor.optim.min_lr=0',
        '+actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity=full',
        'actor_rollout_ref.model.enable_gradient_checkpointing=false',
      ],
    });
    expect(config.actor_rollout_ref.actor).toMatchObject({
      strategy: 'megatron',
      fsdp_config: { seed: 9 },
      optim: { lr_scheduler_type: 'cosine', min_lr_ratio: 0 },
    });
    expect(notices[0]).toMatch(/megatron\.tensor_model_parallel_size \(maps to data parallelism/);
    expect(notices[1]).toContain('actor_rollout_ref.actor.megatron.seed -> actor_rollout_ref.actor.fsdp_config.seed');
  });

  it('whole command lines of Search-R1 and DAPO load', () => {
    const search = composeConfig({ kind: 'ppo', overrides: SEARCH_COMMAND });
    expect(batchPlan(search.config)).toMatchObject({
      trajectoriesPerStep: 2560,
      totalSteps: 1005,
      actor: { optimizerSteps: 2, microBatchTrajectoriesPerRank: 8, microStepsPerOptimizerStep: 20 },
    });
    expect(search.notices).toHaveLength(3);
    const dapo = composeConfig({ kind: 'ppo', overrides: DAPO_COMMAND }).config;
    expect(dapo.reward_model).toMatchObject({
      reward_manager: 'dapo',
      reward_kwargs: { overlong_buffer_cfg: { enable: true, len: 4096, penalty_factor: 1 } },
    });
    expect(dapo.actor_rollout_ref.actor).toMatchObject({
      clip_ratio_low: 0.2,
      clip_ratio_high: 0.28,
      loss_agg_mode: 'token-mean',
    });
    expect(dapo.actor_rollout_ref.model.override_config).toEqual({ attention_dropout: 0 });
    expect(batchPlan(dapo).trajectoriesPerRank).toBe(64);
  });

  it('names the engine that is not used', () => {
    expect(ppo('actor_rollout_ref.rollout.name=vllm').notices).toEqual([
      'actor_rollout_ref.rollout.name=vllm: the built-in engine samples in its place',
    ]);
    expect(
      ppo('actor_rollout_ref.rollout.name=vllm', 'actor_rollout_ref.rollout.server.base_url=http://h:1/v1').notices,
    ).toEqual([]);
  });
});
