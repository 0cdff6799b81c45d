import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { type TinySetup, tinySetup } from './tiny.js';

const main = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url));

let tiny: TinySetup;
beforeAll(async () => {
  tiny = await tinySetup();
});

interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  output: string;
}

/** Runs `verlet train`; `onOutput` may send it signals. Ends it after a deadline. */
function verlet(
  words: string[],
  onOutput: (output: string, kill: (signal: NodeJS.Signals) => void) => void = () => {},
): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main, 'train', ...words], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, OMP_NUM_THREADS: '1' },
    });
    let output = '';
    const deadline = setTimeout(() => child.kill('SIGKILL'), 100_000);
    const collect = (chunk: Buffer): void => {
      output += chunk.toString();
      onOutput(output, (signal) => child.kill(signal));
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(deadline);
      resolve({ code, signal, output });
    });
  });
}

const weights = (run: string, step: number): Buffer =>
  readFileSync(path.join(run, `global_step_${step}`, 'actor', 'huggingface', 'model.safetensors'));

describe('verlet train', () => {
  it('takes a command line as verl users write it', async () => {
    const run = path.join(tiny.folder, 'as-verl');
    const result = await verlet([
      `data.train_files=${tiny.train}`,
      `data.val_files=${tiny.train}`,
      'data.train_batch_size=16',
      'data.max_prompt_length=512',
      'data.max_response_length=256',
      `actor_rollout_ref.model.path=${tiny.model}`,
      'actor_rollout_ref.actor.optim.lr=1e-6',
      'actor_rollout_ref.actor.ppo_mini_batch_size=4',
      'actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4',
      'actor_rollout_ref.rollout.name=vllm',
      'actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8',
      'actor_rollout_ref.rollout.tensor_model_parallel_size=1',
      'actor_rollout_ref.rollout.gpu_memory_utilization=0.4',
      'actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4',
      'critic.optim.lr=1e-5',
      `critic.model.path=${tiny.model}`,
      'critic.ppo_micro_batch_size_per_gpu=4',
      'algorithm.kl_ctrl.kl_coef=0.001',
      'trainer.logger=[console]',
      'trainer.val_before_train=False',
      'trainer.n_gpus_per_node=1',
      'trainer.nnodes=1',
      'trainer.save_freq=10',
      'trainer.test_freq=10',
      'trainer.total_epochs=15',
      'trainer.total_training_steps=2',
      `trainer.default_local_dir=${run}`,
      // The model does not know when to stop yet; two steps of full-length answers are not what this test is about.
      'data.max_response_length=16',
    ]);
    expect(result.output).toContain('step 2/2');
    expect(result.code, result.output).toBe(0);
    expect(existsSync(path.join(run, 'global_step_2', 'critic'))).toBe(true);
  });

  it('killed at any moment, goes on to the same weights', async () => {
    const whole = path.join(tiny.folder, 'cli-whole');
    const killed = path.join(tiny.folder, 'cli-killed');
    const words = (run: string): string[] =>
      tiny.words(
        'trainer.save_freq=1',
        'trainer.total_training_steps=5',
        'trainer.logger=[console]',
        `trainer.default_local_dir=${run}`,
      );
    expect((await verlet(words(whole))).code).toBe(0);
    for (const moment of [1, 3]) {
      let sent = false;
      const ended = await verlet(words(killed), (output, kill) => {
        if (sent || !output.includes(`step ${moment}/5`)) return;
        sent = true;
        // Somewhere inside the next step or its save.
        setTimeout(() => kill('SIGKILL'), 15 * moment);
      });
      expect(ended.signal === 'SIGKILL' || ended.code === 0).toBe(true);
    }
    const last = await verlet(words(killed));
    expect(last.code, last.output).toBe(0);
    expect(weights(killed, 5).equals(weights(whole, 5))).toBe(true);
  });

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'finishes the step and saves on %s, and says how to go on',
    async (signal) => {
      const run = path.join(tiny.folder, `cli-${signal}`);
      rmSync(run, { recursive: true, force: true });
      let sent = false;
      const ended = await verlet(
        tiny.words('trainer.total_training_steps=500', 'trainer.logger=[console]', `trainer.default_local_dir=${run}`),
        (output, kill) => {
          if (sent || !output.includes('step 2/500')) return;
          sent = true;
          kill(signal);
        },
      );
      expect(ended.output).toMatch(/run the same command again/);
      const latest = readFileSync(path.join(run, 'latest_checkpointed_iteration.txt'), 'utf8').trim();
      expect(Number(latest)).toBeGreaterThanOrEqual(2);
      expect(existsSync(path.join(run, `global_step_${latest}`, 'trainer_state.json'))).toBe(true);
    },
  );

  it('explains a wrong key and a missing file', async () => {
    const wrong = await verlet(tiny.words('data.train_batchsize=4'));
    expect(wrong.code).toBe(2);
    expect(wrong.output).toContain('data.train_batch_size');
    const missing = await verlet(tiny.words('data.train_files=/nowhere/train.parquet'));
    expect(missing.code).not.toBe(0);
    expect(missing.output).toContain('/nowhere/train.parquet');
    expect(missing.output).not.toContain('    at ');
  });
});
