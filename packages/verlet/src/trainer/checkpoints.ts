/**
 * `global_step_N` folders, written whole or not at all: everything goes into a temporary folder first, one rename makes it
 * real, and only then does `latest_checkpointed_iteration.txt` name it. A run killed at any moment finds the last whole one.
 */
import { existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import type { PpoConfig } from '../config/index.js';
import { UserError } from '../config/index.js';
import type { DataLoader, LoaderState, RlItem } from '../data/index.js';
import type { PpoTrainer } from './ppo.js';

/** A worker (or group) whose state belongs into a checkpoint. */
export interface Checkpointed {
  name: 'actor' | 'critic';
  saveCheckpoint(folder: string): Promise<void>;
  loadCheckpoint(folder: string): Promise<void>;
}

interface TrainerState {
  version: 1;
  globalStep: number;
  loader: LoaderState;
  klController: { value: number };
}

const latestFile = 'latest_checkpointed_iteration.txt';

async function writeDurably(file: string, text: string): Promise<void> {
  const temporary = `${file}.tmp`;
  const handle = await open(temporary, 'w');
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, file);
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Which of the saved steps go when `keep` may stay: the newest and the best stay always, the rest by age. */
export function checkpointsToDelete(
  steps: readonly number[],
  { keep, newest, best }: { keep: number; newest: number; best: number | null },
): number[] {
  const safe = steps.filter((step) => step === newest || step === best);
  const others = steps.filter((step) => step !== newest && step !== best).sort((a, b) => b - a);
  return others.slice(Math.max(0, keep - safe.length));
}

export class Checkpoints {
  private best: { step: number; score: number } | null = null;

  constructor(
    private readonly config: PpoConfig,
    private readonly members: readonly Checkpointed[],
    private readonly loader: DataLoader<RlItem>,
  ) {}

  get root(): string {
    return this.config.trainer.default_local_dir;
  }

  private folderOf(step: number): string {
    return path.join(this.root, `global_step_${step}`);
  }

  async save(trainer: PpoTrainer, metrics: Readonly<Record<string, number>> = {}): Promise<string> {
    const target = this.folderOf(trainer.globalStep);
    const temporary = `${target}.tmp-${process.pid}`;
    await rm(temporary, { recursive: true, force: true });
    await mkdir(temporary, { recursive: true });
    for (const member of this.members) {
      const folder = path.join(temporary, member.name);
      await mkdir(folder, { recursive: true });
      await member.saveCheckpoint(folder);
    }
    const state: TrainerState = {
      version: 1,
      globalStep: trainer.globalStep,
      loader: this.loader.state(),
      klController: trainer.klController.state(),
    };
    await writeDurably(path.join(temporary, 'trainer_state.json'), `${JSON.stringify(state, null, 2)}\n`);
    await syncFolder(temporary);
    // Left over from a run that saved this step but died before naming it.
    await rm(target, { recursive: true, force: true });
    await rename(temporary, target);
    await syncFolder(this.root);
    await writeDurably(path.join(this.root, latestFile), `${trainer.globalStep}\n`);
    await this.retain(trainer.globalStep, metrics);
    return target;
  }

  /** Deletes old folders, never the newest and never the best. */
  private async retain(step: number, metrics: Readonly<Record<string, number>>): Promise<void> {
    const core = Object.entries(metrics).find(([name]) => name.startsWith('val-core/'));
    if (core && (this.best === null || core[1] > this.best.score)) {
      this.best = { step, score: core[1] };
      await writeDurably(
        path.join(this.root, 'checkpoint_tracker.json'),
        `${JSON.stringify({ best_global_step: step, best_val_reward_score: core[1], last_global_step: step }, null, 2)}\n`,
      );
    }
    const { max_actor_ckpt_to_keep: actors, max_critic_ckpt_to_keep: critics } = this.config.trainer;
    for (const old of await this.beyond(actors, step)) await rm(this.folderOf(old), { recursive: true, force: true });
    // The actor of such a step stays: it can be used and exported, only not trained further with its critic.
    for (const old of await this.beyond(critics, step))
      await rm(path.join(this.folderOf(old), 'critic'), { recursive: true, force: true });
  }

  private async beyond(keep: number | null, newest: number): Promise<number[]> {
    if (!keep || keep <= 0) return [];
    return checkpointsToDelete(await this.steps(), { keep, newest, best: this.best?.step ?? null });
  }

  private async steps(): Promise<number[]> {
    if (!existsSync(this.root)) return [];
    const names = await readdir(this.root);
    return names.flatMap((name) => {
      const match = /^global_step_(\d+)$/.exec(name);
      return match ? [Number(match[1])] : [];
    });
  }

  /** Where the run goes on: loads the checkpoint that the configuration asks for and returns its step, 0 for a new run. */
  async resume(trainer: PpoTrainer): Promise<number> {
    const folder = await this.toResume();
    if (!folder) return 0;
    const file = path.join(folder, 'trainer_state.json');
    let state: TrainerState;
    try {
      state = JSON.parse(await readFile(file, 'utf8')) as TrainerState;
    } catch (error) {
      throw new UserError(`cannot resume from ${folder}: ${file} cannot be read (${(error as Error).message})`);
    }
    for (const member of this.members) await member.loadCheckpoint(path.join(folder, member.name));
    this.loader.restore(state.loader);
    trainer.klController.restore(state.klController);
    const tracker = path.join(this.root, 'checkpoint_tracker.json');
    if (existsSync(tracker)) {
      const saved = JSON.parse(await readFile(tracker, 'utf8')) as {
        best_global_step: number;
        best_val_reward_score: number;
      };
      this.best = { step: saved.best_global_step, score: saved.best_val_reward_score };
    }
    return state.globalStep;
  }

  private async toResume(): Promise<string | null> {
    const { resume_mode: mode, resume_from_path: from } = this.config.trainer;
    if (mode === 'disable') return null;
    if (mode === 'resume_path' || from) {
      if (!from || !/global_step_\d+\/?$/.test(from))
        throw new UserError(`trainer.resume_from_path must name a global_step_N folder, got ${JSON.stringify(from)}`);
      if (!existsSync(from)) throw new UserError(`trainer.resume_from_path: ${from} does not exist`);
      return from;
    }
    const latest = path.join(this.root, latestFile);
    if (!existsSync(latest)) return null;
    const step = Number((await readFile(latest, 'utf8')).trim());
    const folder = this.folderOf(step);
    if (existsSync(folder)) return folder;
    const others = await this.steps();
    return others.length ? this.folderOf(Math.max(...others)) : null;
  }
}
