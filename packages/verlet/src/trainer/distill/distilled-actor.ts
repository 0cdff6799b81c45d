import { noGrad, scope, type Tensor, zerosLike } from '@verlet/torch';
import { isTopKDivergence, klPenalty } from '../../algorithms/index.js';
import type { PpoConfig } from '../../config/index.js';
import { DataProto } from '../../protocol/index.js';
import type { ActorGroup } from '../ppo.js';
import type { Teachers } from './teachers.js';

/** The policy with its teachers behind it: whoever asks for the reference's log-probabilities gets the teachers'. */
export class DistilledActor implements ActorGroup {
  private readonly loss: PpoConfig['distillation']['distillation_loss'];

  constructor(
    private readonly student: ActorGroup,
    private readonly teachers: Teachers,
    config: PpoConfig,
  ) {
    this.loss = config.distillation.distillation_loss;
  }

  wake = (): Promise<void> => this.student.wake();
  sleep = (): Promise<void> => this.student.sleep();
  generateSequences = (batch: DataProto): Promise<DataProto> => this.student.generateSequences(batch);
  computeLogProb = (batch: DataProto): Promise<DataProto> => this.student.computeLogProb(batch);

  async computeRefLogProb(batch: DataProto): Promise<DataProto> {
    return DataProto.fromDict({ tensors: { ref_log_prob: this.teachers.logProbs(batch) } });
  }

  async updateActor(batch: DataProto): Promise<DataProto> {
    const teacher = batch.batch.get('ref_log_prob') ?? this.teachers.logProbs(batch);
    const student = batch.batch.get('old_log_probs') ?? batch.tensor('rollout_log_probs');
    const { divergence, meanKl } = this.compare(batch, student, teacher);
    batch.set('advantages', this.advantages(batch, divergence));
    divergence.dispose();
    if (!batch.batch.has('ref_log_prob')) teacher.dispose();
    if (isTopKDivergence(this.loss.loss_mode)) {
      const { ids, logProbs } = this.teachers.topLogProbs(batch);
      batch.set('teacher_topk_ids', ids);
      batch.set('teacher_topk_log_probs', logProbs);
    }
    const output = await this.student.updateActor(batch);
    const metrics = output.metaInfo.metrics as Record<string, number[]>;
    metrics['distillation/kl'] = [meanKl];
    return output;
  }

  /** Per token, [rows, responseWidth], zero where nothing was sampled; and the mean of log student - log teacher. */
  private compare(batch: DataProto, student: Tensor, teacher: Tensor): { divergence: Tensor; meanKl: number } {
    return noGrad(() => {
      let meanKl = 0;
      const divergence = scope(() => {
        const mask = batch.tensor('response_mask').to('float32');
        meanKl = student.sub(teacher).mul(mask).sum().item() / Math.max(1, mask.sum().item());
        const { loss_mode: mode } = this.loss;
        // A top-k form is a loss of the update; what is compared here is then for the metric only.
        const values = klPenalty(student, teacher, isTopKDivergence(mode) ? 'k1' : mode.replace(/\+$/, ''));
        const most = this.loss.loss_max_clamp;
        return (most === null ? values : values.clamp(-most, most)).mul(mask);
      });
      return { divergence, meanKl };
    });
  }

  private advantages(batch: DataProto, divergence: Tensor): Tensor {
    const { use_task_rewards, use_policy_gradient, distillation_loss_coef: coefficient } = this.loss;
    return scope(() => {
      const own = batch.tensor('advantages');
      const task = use_task_rewards ? own.clone() : zerosLike(own);
      // A token is worth what it brings the student closer to the teacher, at once and without discount.
      return use_policy_gradient ? task.sub(divergence.mul(coefficient)) : task;
    });
  }
}
