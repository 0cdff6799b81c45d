/**
 * `global_step_N` folders, written whole or not at all: everything goes into a temporary folder first, one rename makes it
 * real, and only then does `latest_checkpointed_iteration.txt` name it. A run killed at any moment finds the last whole one.
 */
import { existsSync } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { type PpoConfig, UserError } from '../config/index.js';
import { WorkerError } from '../controller/index.js';
import type { DataLoader, LoaderState } from '../data/index.js';

/** A worker (or group) whose state belongs into a checkpoint. */
export interface Checkpointed {
  name: 'actor' | 'critic';
  saveCheckpoint(folder: string): Promise<unknown>;
  loadCheckpoint(folder: string): Promise<unknown>;
}

/** Where a training loop is, whatever it learns from. */
export interface Progress {
  readonly globalStep: number;
  /** Loops with a KL in the reward move its weight. */
  readonly klController?: { state(): { value: number }; restore(state: { value: number }): void };
}

export interface CheckpointSettings
  extends Pick<PpoConfig['trainer'], 'default_local_dir' | 'resume_mode' | 'resume_from_path'> {
  max_actor_ckpt_to_keep: number | null;
  max_critic_ckpt_to_keep?: number | null;
}

interface TrainerState {
  version: 1;
  globalStep: number;
  loader: LoaderState;
  klController?: { value: number };
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

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
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
    private readonly settings: CheckpointSettings,
    private readonly members: readonly Checkpointed[],
    private readonly loader: Pick<DataLoader<unknown>, 'state' | 'restore'>,
  ) {}

  get root(): string {
    return this.settings.default_local_dir;
  }

  private folderOf(step: number): string {
    return path.join(this.root, `global_step_${step}`);
  }

  async save(progress: Progress, metrics: Readonly<Record<string, number>> = {}): Promise<string> {
    const target = this.folderOf(progress.globalStep);
    const temporary = `${target}.tmp-${process.pid}`;
    try {
      await this.write(temporary, progress);
      // Left over from a run that saved this step but died before naming it.
      await rm(target, { recursive: true, force: true });
      await rename(temporary, target);
      await syncFolder(this.root);
      await writeDurably(path.join(this.root, latestFile), `${progress.globalStep}\n`);
    } catch (error) {
      // On a full disk the unfinished folder would be in the way of everything else.
      await rm(temporary, { recursive: true, force: true }).catch(() => {});
      throw await this.notSaved(target, error as Error);
    }
    await this.retain(progress.globalStep, metrics);
    return target;
  }

  private async write(folder: string, progress: Progress): Promise<void> {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true });
    for (const member of this.members) {
      const own = path.join(folder, member.name);
      await mkdir(own, { recursive: true });
      await member.saveCheckpoint(own);
    }
    const state: TrainerState = {
      version: 1,
      globalStep: progress.globalStep,
      loader: this.loader.state(),
      klController: progress.klController?.state(),
    };
    await writeDurably(path.join(folder, 'trainer_state.json'), `${JSON.stringify(state, null, 2)}\n`);
    await syncFolder(folder);
  }

  /** What a person needs to know at that moment: why, and what is left to go on from. */
  private async notSaved(target: string, error: Error): Promise<Error> {
    // A worker that is gone says so itself, and better; one that threw is where the disk is.
    const isGone = error instanceof WorkerError && error.failure !== 'threw';
    if (isGone || error instanceof UserError) return error;
    const [reason] = error.message.split('\n', 1);
    const steps = await this.steps().catch(() => [] as number[]);
    const left = steps.length > 0 ? `global_step_${Math.max(...steps)} is the last that is whole` : 'there is no other';
    return new UserError(
      `the checkpoint ${target} could not be written: ${reason}. ${left}; make room (or choose another ` +
        'trainer.default_local_dir) and run the same command again',
      { cause: error },
    );
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
    const { max_actor_ckpt_to_keep: actors, max_critic_ckpt_to_keep: critics } = this.settings;
    for (const old of await this.beyond(actors, step)) await rm(this.folderOf(old), { recursive: true, force: true });
    // The actor of such a step stays: it can be used and exported, only not trained further with its critic.
    for (const old of await this.beyond(critics ?? null, step))
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
  async resume(progress: Progress): Promise<number> {
    await this.clearUnfinished();
    const folder = await this.toResume();
    if (!folder) return 0;
    const state = await this.read(folder, progress);
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

  private async read(folder: string, progress: Progress): Promise<TrainerState> {
    let reading = 'trainer_state.json';
    try {
      const state = JSON.parse(await readFile(path.join(folder, reading), 'utf8')) as TrainerState;
      for (const member of this.members) {
        reading = member.name;
        await member.loadCheckpoint(path.join(folder, member.name));
      }
      reading = 'trainer_state.json';
      this.loader.restore(state.loader);
      if (state.klController) progress.klController?.restore(state.klController);
      return state;
    } catch (error) {
      if (error instanceof UserError) throw error;
      const step = Number(/global_step_(\d+)\/?$/.exec(folder)?.[1]);
      const older = (await this.steps()).filter((other) => other < step);
      const instead =
        older.length > 0
          ? `trainer.resume_from_path=${this.folderOf(Math.max(...older))} goes on from the one before`
          : 'trainer.resume_mode=disable starts anew';
      const [reason] = (error as Error).message.split('\n', 1);
      throw new UserError(`cannot resume from ${folder}: ${reading}: ${reason}; ${instead}`, {
        cause: error,
      });
    }
  }

  /** Folders of saves that a kill cut short; those of processes that live are theirs. */
  private async clearUnfinished(): Promise<void> {
    if (!existsSync(this.root)) return;
    for (const name of await readdir(this.root)) {
      const pid = /^global_step_\d+\.tmp-(\d+)$/.exec(name)?.[1];
      if (pid && !isAlive(Number(pid))) await rm(path.join(this.root, name), { recursive: true, force: true });
    }
  }

  private async toResume(): Promise<string | null> {
    const { resume_mode: mode, resume_from_path: from } = this.settings;
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
