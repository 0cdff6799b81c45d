// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DAPO_COMMAND, SEARCH_COMMAND, SEED_COMMAND } from '../../test/fixtures/command-lines.js';
import { metaOf } from './field.js';
import {
  batchPlan,
  ConfigError,
  type ConfigKind,
  composeConfig,
  definePpoConfig,
  type PpoConfig,
  renderConfig,
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
    const { config, notices } = composeConfig({ kind: 'ppo', overrides: SEED_COMMAND });
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
        ...SEED_COMMAND,
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

it('types promise what the schema holds', async () => {
  const root = fileURLToPath(new URL('../../../../', import.meta.url));
  const compiler = createRequire(import.meta.url)
    .resolve('typescript/package.json')
    .replace('package.json', 'bin/tsc');
  const project = join(root, 'packages/verlet/test/config-types');
  const { stdout } = await promisify(execFile)(process.execPath, [compiler, '-p', project], { timeout: 90_000 }).catch(
    (error: { stdout: string }) => error,
  );
  expect(stdout).toBe('');
});

it('a printed tree, read as a file, is the same tree', () => {
  const folder = mkdtempSync(join(tmpdir(), 'verlet-print-'));
  const file = join(folder, 'printed.yaml');
  const free = fc.dictionary(
    fc.stringMatching(/^[a-z][a-z_ :#-]{0,8}$/),
    fc.oneof(
      fc.string(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.array(fc.string()),
      fc.constant(null),
    ),
  );
  try {
    fc.assert(
      fc.property(
        free,
        fc.string({ minLength: 1 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (custom, name, gamma) => {
          fc.pre(!JSON.stringify([custom, name]).includes('${'));
          const object = { custom, trainer: { experiment_name: name }, algorithm: { gamma } };
          const written = composeConfig({ kind: 'ppo', object, allowMissing: true, skipChecks: true });
          writeFileSync(file, renderConfig(written));
          const read = composeConfig({ kind: 'ppo', files: [file], allowMissing: true, skipChecks: true });
          expect(read.config.custom).toEqual(normalizeZero(written.config.custom));
          expect({ ...read.config, custom: null }).toEqual(normalizeZero({ ...written.config, custom: null }));
        },
      ),
      { numRuns: 25 },
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

/** Printing has no -0. */
const normalizeZero = <T>(value: T): T =>
  JSON.parse(JSON.stringify(value), (_key, item) => (Object.is(item, -0) ? 0 : item)) as T;

it('the generated pages are up to date', async () => {
  const { renderMegatronTemplate, renderReference, renderTemplate } = await import('./reference.js');
  const root = new URL('../../../../', import.meta.url);
  const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
  const advice = 'run node scripts/generate-config-reference.mjs';
  expect(read('docs/reference/config.md') === renderReference(), advice).toBe(true);
  expect(read('packages/verlet/configs/ppo_trainer.yaml') === renderTemplate('ppo'), advice).toBe(true);
  expect(read('packages/verlet/configs/ppo_megatron_trainer.yaml') === renderMegatronTemplate(), advice).toBe(true);
  expect(read('packages/verlet/configs/sft_trainer.yaml') === renderTemplate('sft'), advice).toBe(true);
  expect(read('packages/verlet/configs/generation.yaml') === renderTemplate('generation'), advice).toBe(true);
  expect(read('packages/verlet/configs/evaluation.yaml') === renderTemplate('evaluation'), advice).toBe(true);
});

it.each([
  ['ppo_trainer', 'ppo'],
  ['ppo_megatron_trainer', 'ppo'],
  ['sft_trainer', 'sft'],
  ['generation', 'generation'],
  ['evaluation', 'evaluation'],
] as const)('configs/%s.yaml loads and changes nothing', (name, kind) => {
  const file = new URL(`../../configs/${name}.yaml`, import.meta.url).pathname;
  const composed = composeConfig({ kind, files: [file], allowMissing: true });
  const builtin = composeConfig({ kind, files: [name], allowMissing: true, skipChecks: true });
  if (name === 'ppo_megatron_trainer')
    builtin.config = { ...builtin.config, reward_model: (composed.config as PpoConfig).reward_model } as never;
  expect(composed.config).toEqual(builtin.config);
});
