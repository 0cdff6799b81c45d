// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FIRST_COMMAND } from '../../test/fixtures/command-lines.js';
import { metaOf } from './field.js';
import {
  batchPlan,
  ConfigError,
  type ConfigKind,
  composeConfig,
  definePpoConfig,
  type PpoConfig,
  schemas,
} from './index.js';
import { defaultsOf, leavesOf } from './tree.js';
import { typeText } from './type-text.js';

const needed = ['data.train_files=t.parquet', 'actor_rollout_ref.model.path=m'];
const ppo = (...overrides: string[]) => composeConfig({ kind: 'ppo', overrides: [...needed, ...overrides] });
const problemsOf = (work: () => unknown): string[] => {
  try {
    work();
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(({ path, message }) => `${path}: ${message}`);
    throw error;
  }
  return [];
};

describe('the schema', () => {
  it.each(Object.keys(schemas) as ConfigKind[])(
    '%s: every key has a sentence and a default of its own type',
    (kind) => {
      const { config } = composeConfig({ kind, allowMissing: true });
      for (const { path, schema } of leavesOf(schemas[kind])) {
        const meta = metaOf(schema);
        expect(meta.description, path.join('.')).toMatch(/^.{4,}[.)]$/);
        expect(meta.default, path.join('.')).not.toBeUndefined();
        expect(typeText(schema), path.join('.')).not.toContain('anything');
      }
      expect(schemas[kind].safeParse(config).error?.issues ?? []).toEqual([]);
    },
  );

  it("has verl's defaults", () => {
    const { config } = composeConfig({ kind: 'ppo', allowMissing: true });
    const { actor, rollout } = config.actor_rollout_ref;
    expect(actor).toMatchObject({
      ppo_mini_batch_size: 256,
      ppo_max_token_len_per_gpu: 16384,
      clip_ratio_low: 0.2,
      clip_ratio_high: 0.2,
      clip_ratio_c: 3,
      loss_agg_mode: 'token-mean',
      kl_loss_coef: 0.001,
      kl_loss_type: 'low_var_kl',
      grad_clip: 1,
    });
    expect(actor.optim).toMatchObject({ lr: 1e-6, weight_decay: 0.01, betas: [0.9, 0.999], lr_warmup_steps: -1 });
    expect(rollout).toMatchObject({
      temperature: 1,
      top_k: -1,
      top_p: 1,
      n: 1,
      prompt_length: 512,
      response_length: 512,
      max_num_batched_tokens: 8192,
    });
    expect(rollout.val_kwargs).toEqual({ temperature: 0, top_k: -1, top_p: 1, n: 1, do_sample: false });
    expect(rollout.multi_turn).toMatchObject({
      max_parallel_calls: 1,
      max_tool_response_length: 256,
      tool_response_truncate_side: 'middle',
      format: 'hermes',
    });
    expect(config.critic).toMatchObject({
      cliprange_value: 0.5,
      ppo_max_token_len_per_gpu: 32768,
      forward_max_token_len_per_gpu: 32768,
      optim: { lr: 1e-5 },
    });
    expect(config.algorithm).toMatchObject({
      gamma: 1,
      lam: 1,
      adv_estimator: 'gae',
      kl_penalty: 'kl',
      kl_ctrl: { type: 'fixed', kl_coef: 0.001, horizon: 10000, target_kl: 0.1 },
    });
    expect(config.trainer).toMatchObject({
      total_epochs: 30,
      save_freq: -1,
      test_freq: -1,
      val_before_train: true,
      critic_warmup: 0,
      balance_batch: true,
      resume_mode: 'auto',
      default_local_dir: 'checkpoints/verlet_examples/gsm8k',
    });
    expect(config.data).toMatchObject({
      train_batch_size: 1024,
      max_prompt_length: 512,
      truncation: 'error',
      reward_fn_key: 'data_source',
    });
    const generation = composeConfig({ kind: 'generation', allowMissing: true }).config;
    expect(generation).toMatchObject({
      data: { n_samples: 5, batch_size: 128 },
      rollout: { top_k: 50, top_p: 0.7, prompt_length: 1536, response_length: 512 },
    });
    const sft = composeConfig({ kind: 'sft', allowMissing: true }).config;
    expect(sft).toMatchObject({
      data: { train_batch_size: 256, micro_batch_size_per_gpu: 4, max_length: 1024, prompt_key: 'question' },
      optim: { lr: 1e-5, betas: [0.9, 0.95] },
      trainer: { total_epochs: 4, seed: 1 },
    });
    const evaluation = composeConfig({ kind: 'evaluation', allowMissing: true }).config;
    expect(evaluation).toMatchObject({
      data: { response_key: 'responses', reward_model_key: 'reward_model' },
      custom_reward_function: { path: null, name: 'compute_score' },
    });
  });

  it('composing twice gives equal, separate trees', () => {
    const first = ppo().config;
    first.data.apply_chat_template_kwargs.touched = true;
    first.actor_rollout_ref.actor.checkpoint.save_contents.push('hf_model');
    expect(ppo().config.data.apply_chat_template_kwargs).toEqual({});
    expect(ppo().config.actor_rollout_ref.actor.checkpoint.save_contents).toEqual(['model', 'optimizer', 'extra']);
    expect((defaultsOf(schemas.ppo) as PpoConfig).actor_rollout_ref.actor.checkpoint.save_contents).toHaveLength(3);
  });
});

describe('command lines', () => {
  it('the first verl command parses as written, without a remark', () => {
    const { config, notices } = composeConfig({ kind: 'ppo', overrides: FIRST_COMMAND });
    expect(config.data).toMatchObject({
      train_files: '/home/.../train.parquet',
      val_files: '/home/.../test.parquet',
      train_batch_size: 16,
      max_response_length: 256,
    });
    expect(config.actor_rollout_ref.rollout).toMatchObject({
      gpu_memory_utilization: 0.4,
      response_length: 256,
      log_prob_micro_batch_size_per_gpu: 8,
      log_prob_use_dynamic_bsz: false,
    });
    expect(config.actor_rollout_ref.actor).toMatchObject({
      ppo_micro_batch_size_per_gpu: 4,
      use_dynamic_bsz: false,
      optim: { lr: 1e-6 },
    });
    expect(config.trainer).toMatchObject({
      logger: 'console',
      val_before_train: false,
      save_freq: 10,
      total_epochs: 3,
    });
    expect(notices).toEqual([]);
    expect(batchPlan(config)).toMatchObject({
      trajectoriesPerStep: 16,
      actor: { optimizerSteps: 4, microStepsPerOptimizerStep: 1 },
    });
  });

  it('keys without meaning here fill exactly one line', () => {
    const { notices, config } = composeConfig({
      kind: 'ppo',
      overrides: [
        ...FIRST_COMMAND,
        'actor_rollout_ref.rollout.load_format=dummy_dtensor',
        'actor_rollout_ref.rollout.tensor_model_parallel_size=2',
        'actor_rollout_ref.actor.fsdp_config.param_offload=True',
        'actor_rollout_ref.ref.fsdp_config.param_offload=False',
        '+actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4',
      ],
    });
    expect(notices).toHaveLength(1);
    for (const key of [
      'rollout.load_format',
      'rollout.tensor_model_parallel_size',
      'actor.fsdp_config.param_offload',
      'rollout.engine_kwargs',
    ]) {
      expect(notices[0]).toContain(`actor_rollout_ref.${key}`);
    }
    expect(notices[0]).not.toContain('ref.fsdp_config');
    expect(config.actor_rollout_ref.rollout.load_format).toBe('dummy_dtensor');
  });

  it('sets, adds, forces, removes', () => {
    const { config, provenance } = ppo(
      '+custom.mine=[1,2]',
      '++trainer.save_freq=5',
      'trainer.test_freq=3',
      '~trainer.test_freq',
      '+custom.gone=1',
      '~custom.gone',
      'trainer.logger=[console,file]',
    );
    expect(config.custom).toEqual({ mine: [1, 2] });
    expect(config.trainer).toMatchObject({ save_freq: 5, test_freq: -1, logger: ['console', 'file'] });
    expect(provenance.has('trainer.test_freq')).toBe(false);
    expect(problemsOf(() => ppo('~custom.never', '~trainer.save_freq=7'))).toEqual([
      'custom.never: cannot be removed: it is not set',
      'trainer.save_freq: cannot be removed: it is the number -1, not 7',
    ]);
  });

  it('keeps text as it was typed and reads numbers from the environment', () => {
    const { config } = composeConfig({
      kind: 'ppo',
      overrides: [
        ...needed,
        'trainer.experiment_name=007',
        'trainer.project_name=1e5',
        'trainer.n_gpus_per_node=${oc.env:GPUS,1}',
        'data.shuffle=${oc.env:SHUFFLE}',
        'trainer.balance_batch=no',
      ],
      environment: { GPUS: '4', SHUFFLE: 'False' },
    });
    expect(config.trainer).toMatchObject({
      experiment_name: '007',
      project_name: '1e5',
      n_gpus_per_node: 4,
      balance_batch: false,
      default_local_dir: 'checkpoints/1e5/007',
    });
    expect(config.data.shuffle).toBe(false);
  });

  it('reports everything that is wrong at once', () => {
    const problems = problemsOf(() =>
      composeConfig({
        kind: 'ppo',
        overrides: [
          'trainer.totl_epochs=3',
          'data.train_batch_size=abc',
          'actor_rollout_ref.actor.loss_agg_mode=token_mean',
          'lr=3',
          'oops',
          'data.seed=${data.sed}',
          'trainer=3',
          'data.shuffle.x=1',
          'algorithm.gamma=2',
          'data.train_files=[a',
        ],
      }),
    );
    expect(problems).toEqual([
      ': "oops" is not key=value; write for example trainer.total_epochs=3',
      'data.train_files: expected , or ] in a list, at character 3 of "[a"',
      'trainer.totl_epochs: there is no such key; did you mean trainer.total_epochs?',
      'lr: there is no such key; did you mean actor_rollout_ref.actor.optim.lr or critic.optim.lr?',
      expect.stringMatching(/^trainer: is a group of keys \(project_name, .*\), got the number 3$/),
      'data.shuffle: expected true or false, got the key x = the number 1 below it',
      expect.stringMatching(/^data\.seed: there is no key data\.sed; did you mean data\.seed/),
      'data.train_batch_size: expected integer >= 1, got the text "abc"',
      expect.stringMatching(
        /^actor_rollout_ref\.actor\.loss_agg_mode: expected one of .* got the text "token_mean"; did you mean token-mean\?$/,
      ),
      'algorithm.gamma: expected number >= 0 and <= 1, got the number 2',
      'actor_rollout_ref.model.path: must be given. Model to train: a local folder or a Hugging Face id.',
    ]);
  });

  it('finds the key that was meant, whichever letter is wrong', () => {
    const keys = leavesOf(schemas.ppo)
      .map(({ path }) => path)
      .filter((path) => path.at(-1)!.length >= 8);
    fc.assert(
      fc.property(fc.constantFrom(...keys), fc.nat(), (path, position) => {
        const name = path.at(-1)!;
        const at = 1 + (position % (name.length - 1));
        const typo = [...path.slice(0, -1), `${name.slice(0, at)}${name.slice(at + 1)}`].join('.');
        const problems = problemsOf(() =>
          composeConfig({ kind: 'ppo', allowMissing: true, skipChecks: true, overrides: [`${typo}=null`] }),
        );
        if (keys.some((key) => key.join('.') === typo)) return;
        expect(problems.join('\n')).toContain(path.join('.'));
      }),
      { numRuns: 25 },
    );
  });

  it('does not let a key named __proto__ reach a prototype', () => {
    const { config } = composeConfig({
      kind: 'ppo',
      object: JSON.parse('{"custom": {"__proto__": {"polluted": true}}}'),
      allowMissing: true,
    });
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect(Object.keys(config.custom)).toEqual(['__proto__']);
  });
});

describe('objects', () => {
  it('resolve like files and are typed', () => {
    const config = definePpoConfig({
      data: { train_files: ['a', 'b'], train_weights: [1, 2] },
      actor_rollout_ref: { model: { path: 'm' }, rollout: { n: 4 } },
      algorithm: { adv_estimator: 'grpo' },
    });
    expect(config.actor_rollout_ref.actor.rollout_n).toBe(4);
    const misspelt = { data: { train_file: 'a' } } as object;
    expect(() => definePpoConfig(misspelt)).toThrow(
      /data\.train_file: there is no such key; did you mean data\.train_files/,
    );
  });

  it('the order is file, object, command line', () => {
    const { config } = composeConfig({
      kind: 'ppo',
      overrides: [...needed, 'trainer.test_freq=3'],
      object: { trainer: { test_freq: 2, save_freq: 2 } },
      files: [{ name: 'module.mjs', value: { trainer: { test_freq: 1, save_freq: 1, total_epochs: 1 } } }],
    });
    expect(config.trainer).toMatchObject({ test_freq: 3, save_freq: 2, total_epochs: 1 });
  });
});
