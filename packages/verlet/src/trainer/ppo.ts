/**
 * The main loop: prompts, rollout, reward, log-probs, values, advantages, updates, metrics. It reads like the paper; what
 * makes it distributed is in the worker groups, what makes it an algorithm in `algorithms/`.
 */
import { tensor } from '@verlet/torch';
import { applyKlPenalty, computeAdvantage, createKlController, type KlController } from '../algorithms/index.js';
import { type PpoConfig, usesCritic, usesReference } from '../config/index.js';
import type { DataLoader, RlItem } from '../data/index.js';
import type { DataProto } from '../protocol/index.js';
import { reduceMetrics } from '../workers/metric-list.js';
import type { Checkpoints } from './checkpoints.js';
import { dataMetrics, mismatchMetrics, timingMetrics } from './data-metrics.js';
import type { RewardLoop } from './reward-loop.js';
import { promptRows, samplingOf } from './rows.js';
import { StepTimer } from './step-timer.js';
import type { TrackerSet } from './trackers/index.js';
import type { Validator } from './validation.js';

/** The distributed calls of the loop. Worker groups have this shape; so have plain workers in this process. */
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
  totalSteps: number;
  devices: number;
  /** Becomes true when the person (or the system) asks to stop after this step. */
  shouldStop: () => boolean;
}

export class PpoTrainer {
  globalStep = 0;
  readonly klController: KlController;
  private readonly useCritic: boolean;
  private readonly useReference: boolean;

  constructor(private readonly parts: PpoParts) {
    this.klController = createKlController(parts.config.algorithm.kl_ctrl);
    this.useCritic = usesCritic(parts.config);
    this.useReference = usesReference(parts.config);
  }

  async fit(): Promise<void> {
    const { config, validator, checkpoints, trackers, totalSteps } = this.parts;
    this.globalStep = await checkpoints.resume(this);
    if (validator && (config.trainer.val_before_train || config.trainer.val_only) && this.globalStep === 0)
      trackers.log(await validator.run(0), 0);
    if (config.trainer.val_only) return;

    while (this.globalStep < totalSteps) {
      this.globalStep++;
      const last = this.globalStep === totalSteps;
      const metrics = await this.step();
      if (validator && config.trainer.test_freq > 0 && (last || this.globalStep % config.trainer.test_freq === 0))
        Object.assign(metrics, await validator.run(this.globalStep));
      const stopping = this.parts.shouldStop();
      if (config.trainer.save_freq > 0 && (last || stopping || this.globalStep % config.trainer.save_freq === 0))
        await checkpoints.save(this, metrics);
      trackers.log(metrics, this.globalStep);
      if (stopping) break;
    }
  }

  /** One step of the data flow; the letters are the stations of the flow in the concept page. */
  async step(): Promise<Record<string, number>> {
    const { config, actor, critic, loader, reward } = this.parts;
    const timer = new StepTimer();
    const metrics: Record<string, number> = {
      'training/global_step': this.globalStep,
      'training/epoch': loader.epochIndex,
    };
    const batch = await timer.time('step', async () => {
      // A-D: prompts, each with its own id, n times
      const items = await loader.next();
      const batch = promptRows(items, config, this.globalStep);
      // F, G: sample
      await actor.wake();
      const generated = await timer.time('gen', () => actor.generateSequences(batch));
      Object.assign(metrics, generated.metaInfo.metrics as Record<string, number>);
      delete generated.metaInfo.metrics;
      batch.union(generated);
      await actor.sleep();
      // H: score
      const scored = await timer.time('reward', () => reward.score(batch));
      batch.set('token_level_scores', scored.scores);
      Object.assign(metrics, scored.metrics);
      // J, K, L: log-probabilities and values under the weights as they are
      batch.union(await timer.time('old_log_prob', () => actor.computeLogProb(batch)));
      const entropy = batch.pop({ batchKeys: ['entropys'] });
      metrics['actor/entropy'] = maskedMeanOf(entropy, batch);
      entropy.dispose();
      if (this.useReference) batch.union(await timer.time('ref', () => actor.computeRefLogProb(batch)));
      if (critic && this.useCritic) batch.union(await timer.time('values', () => critic.computeValues(batch)));
      Object.assign(metrics, mismatchMetrics(batch));
      // I: advantages, in this process
      await timer.time('adv', async () => this.advantages(batch, metrics));
      // M: update
      if (critic && this.useCritic) {
        const output = await timer.time('update_critic', () => critic.updateCritic(batch));
        Object.assign(metrics, reduceMetrics(output.metaInfo.metrics as Record<string, number[]>));
      }
      if (this.globalStep > config.trainer.critic_warmup) {
        const output = await timer.time('update_actor', () => actor.updateActor(batch));
        Object.assign(metrics, reduceMetrics(output.metaInfo.metrics as Record<string, number[]>));
      }
      return batch;
    });
    // N: what happened
    Object.assign(metrics, dataMetrics(batch, { useCritic: this.useCritic }));
    Object.assign(metrics, timingMetrics({ timing: timer.seconds, batch, devices: this.parts.devices }));
    await this.parts.trackers.rollouts(batch, this.globalStep);
    batch.dispose();
    return metrics;
  }

  private advantages(batch: DataProto, metrics: Record<string, number>): void {
    const { algorithm } = this.parts.config;
    const responseMask = batch.tensor('response_mask').to('float32');
    if (algorithm.use_kl_in_reward) {
      const { tokenLevelRewards, metrics: report } = applyKlPenalty({
        tokenLevelScores: batch.tensor('token_level_scores'),
        oldLogProbs: batch.tensor('old_log_probs'),
        refLogProb: batch.tensor('ref_log_prob'),
        responseMask,
        controller: this.klController,
        kind: algorithm.kl_penalty,
      });
      batch.set('token_level_rewards', tokenLevelRewards);
      Object.assign(metrics, report);
    } else batch.set('token_level_rewards', batch.tensor('token_level_scores').clone());
    const { advantages, returns } = computeAdvantage(algorithm.adv_estimator, {
      tokenLevelRewards: batch.tensor('token_level_rewards'),
      responseMask,
      groupIds: batch.column<string>('uid'),
      values: batch.batch.get('values'),
      gamma: algorithm.gamma,
      lam: algorithm.lam,
      normAdvByStd: algorithm.norm_adv_by_std_in_grpo,
      oldLogProbs: batch.tensor('old_log_probs'),
      sumPiSquared: batch.batch.get('sum_pi_squared'),
    });
    responseMask.dispose();
    batch.set('advantages', advantages);
    batch.set('returns', returns);
  }
}

function maskedMeanOf(values: DataProto, batch: DataProto): number {
  const mask = batch.tensor('response_mask').toFloat32Array();
  const numbers = values.tensor('entropys').toFloat32Array();
  let sum = 0;
  let count = 0;
  for (let k = 0; k < mask.length; k++) {
    sum += numbers[k]! * mask[k]!;
    count += mask[k]!;
  }
  return count > 0 ? sum / count : 0;
}

export { samplingOf, tensor };
