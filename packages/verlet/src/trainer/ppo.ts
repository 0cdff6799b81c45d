/**
 * The main loop: prompts, rollout, reward, log-probs, values, advantages, updates, metrics. It reads like the paper; what
 * makes it distributed is in the worker groups, what makes it an algorithm in `algorithms/`.
 */
import {
  type AdvantageEstimator,
  balanceMetrics,
  createKlController,
  type KlController,
  workload,
} from '../algorithms/index.js';
import { type PpoConfig, usesCritic, usesReference } from '../config/index.js';
import { dealRows, rowLengths } from '../controller/index.js';
import type { DataLoader, RlItem } from '../data/index.js';
import type { DataProto } from '../protocol/index.js';
import type { Checkpoints } from './checkpoints.js';
import { collect, StepAbandoned } from './collect.js';
import { dataMetrics, meanOverMask, mismatchMetrics, timingMetrics, varianceProxies } from './data-metrics.js';
import { addAdvantages, addLogProbsAndValues, type EstimateParts, resampleByScore } from './estimate.js';
import type { Guards } from './guards/index.js';
import type { RewardLoop } from './reward-loop.js';
import { sampleFeedback } from './rows.js';
import { StepTimer, takeMetrics } from './step-timer.js';
import type { TraceRecorder } from './trace/index.js';
import type { TrackerSet } from './trackers/index.js';
import type { Validator } from './validation.js';

/** The distributed calls of the loop. Worker groups have this shape; metrics come back as lists over ranks. */
export interface ActorGroup {
  wake(): Promise<void>;
  sleep(): Promise<void>;
  generateSequences(batch: DataProto): Promise<DataProto>;
  computeLogProb(batch: DataProto): Promise<DataProto>;
  computeRefLogProb(batch: DataProto): Promise<DataProto>;
  updateActor(batch: DataProto): Promise<DataProto>;
}

export interface CriticGroup {
  computeValues(batch: DataProto): Promise<DataProto>;
  updateCritic(batch: DataProto): Promise<DataProto>;
}

export interface PpoParts {
  config: PpoConfig;
  actor: ActorGroup;
  critic: CriticGroup | null;
  loader: DataLoader<RlItem>;
  reward: RewardLoop;
  validator: Validator | null;
  checkpoints: Checkpoints;
  trackers: TrackerSet;
  /** Instead of the estimator that the configuration names. */
  advantage?: AdvantageEstimator;
  guards?: Guards;
  trace?: TraceRecorder;
  totalSteps: number;
  /** Ranks that share a batch. */
  worldSize: number;
  /** Becomes true when the person (or the system) asks to stop after this step. */
  shouldStop: () => boolean;
}

export class PpoTrainer {
  globalStep = 0;
  readonly klController: KlController;
  private readonly estimate: EstimateParts;

  constructor(private readonly parts: PpoParts) {
    const { config, actor, critic } = parts;
    this.klController = createKlController(config.algorithm.kl_ctrl);
    this.estimate = {
      config,
      actor,
      critic: usesCritic(config) ? critic : null,
      useReference: usesReference(config),
      klController: this.klController,
      advantage: parts.advantage,
    };
  }

  async fit(): Promise<void> {
    const { config, validator, checkpoints, trackers, loader, totalSteps } = this.parts;
    const { val_before_train, val_only, test_freq, save_freq } = config.trainer;
    this.globalStep = await checkpoints.resume(this);
    await trackers.start(this.globalStep);
    if (validator && (val_only || (val_before_train && this.globalStep === 0)))
      trackers.log(await validator.run(this.globalStep), this.globalStep);
    if (val_only) return;

    while (this.globalStep < totalSteps && !this.parts.shouldStop()) {
      this.globalStep++;
      const last = this.globalStep === totalSteps;
      const isTurn = (every: number): boolean => every > 0 && (last || this.globalStep % every === 0);
      const timer = new StepTimer(this.parts.trace);
      // Only group filtering samples for so long that a step may be given up.
      const place = config.algorithm.filter_groups.enable ? loader.state() : null;
      const metrics = await this.step(timer).catch(async (error: unknown) => {
        if (!(error instanceof StepAbandoned)) throw error;
        if (place) loader.restore(place);
        this.globalStep--;
        return null;
      });
      if (metrics === null) {
        if (this.globalStep > 0) await checkpoints.save(this);
        return;
      }
      if (validator && isTurn(test_freq))
        Object.assign(metrics, await timer.time('testing', () => validator.run(this.globalStep)));
      // Whoever asks to stop wants to go on later: that needs a checkpoint, also where none was planned.
      if (isTurn(save_freq) || this.parts.shouldStop())
        await timer.time('save_checkpoint', () => checkpoints.save(this, metrics));
      for (const name of ['testing', 'save_checkpoint'])
        if (name in timer.seconds) metrics[`timing_s/${name}`] = timer.seconds[name]!;
      trackers.log(metrics, this.globalStep);
    }
  }

  /** One step of the data flow; the letters are the stations of the flow in the concept page. */
  async step(timer = new StepTimer()): Promise<Record<string, number>> {
    const { config, actor, loader, worldSize } = this.parts;
    const { critic } = this.estimate;
    const metrics: Record<string, number> = {
      'training/global_step': this.globalStep,
      'training/epoch': loader.epochIndex,
    };
    const { batch, responseTokens } = await timer.time('step', async () => {
      // A-H: sample and score
      await actor.wake();
      const collected = await collect(this.parts, this.globalStep, timer);
      await actor.sleep();
      Object.assign(metrics, collected.metrics);
      const batch = resampleByScore(config, collected.batch, this.globalStep);
      batch.metaInfo.balance_batch = config.trainer.balance_batch;
      if (worldSize > 1) Object.assign(metrics, balance(batch, worldSize));
      // I-L: what the weights say, what each token was worth
      Object.assign(metrics, await addLogProbsAndValues(this.estimate, batch, timer));
      if (batch.batch.has('entropys')) metrics['actor/entropy'] = meanOverMask(batch, 'entropys');
      Object.assign(metrics, mismatchMetrics(batch));
      Object.assign(metrics, await timer.time('adv', async () => addAdvantages(this.estimate, batch)));
      // M: learn
      if (critic)
        Object.assign(metrics, takeMetrics(await timer.time('update_critic', () => critic.updateCritic(batch))));
      if (this.globalStep > config.trainer.critic_warmup)
        Object.assign(metrics, takeMetrics(await timer.time('update_actor', () => actor.updateActor(batch))));
      return { batch, responseTokens: collected.responseTokens };
    });
    // N: what happened
    Object.assign(metrics, dataMetrics(batch, { useCritic: critic !== null }));
    Object.assign(metrics, varianceProxies(batch, metrics['actor/grad_norm']));
    Object.assign(metrics, this.parts.guards?.check(batch, metrics, this.globalStep));
    loader.update(sampleFeedback(batch));
    const { trackers } = this.parts;
    if (config.trainer.rollout_data_dir)
      await timer.time('dump_rollout_generations', () => trackers.rollouts(batch, this.globalStep));
    Object.assign(metrics, timingMetrics({ timing: timer.seconds, batch, responseTokens, devices: worldSize }));
    batch.dispose();
    return metrics;
  }
}

/** Tokens per rank, as the worker groups deal the rows: nearly equal work, in mini-batches that do not depend on the ranks. */
function balance(batch: DataProto, worldSize: number): Record<string, number> {
  const lengths = rowLengths(batch);
  if (!lengths || batch.length % worldSize !== 0) return {};
  return balanceMetrics([...lengths], dealRows(batch.length, worldSize, Array.from(lengths, workload)));
}
