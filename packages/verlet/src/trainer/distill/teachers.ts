/** The teachers: frozen models that say how likely they find what the student wrote. */
import { nn, scope, type Tensor, zeros } from '@verlet/torch';
import { type PpoConfig, UserError } from '../../config/index.js';
import { loadCausalLM } from '../../models/checkpoint.js';
import { Tokenizer } from '../../models/tokenizer/index.js';
import type { CausalLM } from '../../models/transformer.js';
import type { DataProto } from '../../protocol/index.js';
import { pickDevice } from '../../workers/actor-rollout-ref.js';
import { forwardRows, scoreBatch } from '../../workers/language-model-worker.js';
import { microBatches } from '../../workers/micro-batches.js';
import { packOptions, rowSource } from '../../workers/packing.js';
import { findModel } from '../export/find-model.js';
import { asUserError } from '../sft/model.js';

interface Teacher {
  name: string;
  /** Rows with this value in `distillation.teacher_key` are its own; null takes every row. */
  key: string | null;
  model: CausalLM;
}

export class Teachers {
  private constructor(
    private readonly teachers: readonly Teacher[],
    private readonly config: PpoConfig,
    /** Tokens that the student knows. */
    private readonly vocabSize: number,
  ) {}

  static async open(config: PpoConfig, student: Tokenizer): Promise<Teachers> {
    const entries = Object.entries(config.distillation.teacher_models) as [string, Record<string, unknown>][];
    if (entries.length === 0)
      throw new UserError(
        'distillation.enabled=true needs a teacher: distillation.teacher_models.NAME.model_path=FOLDER',
        { exitCode: 2 },
      );
    const device = pickDevice(config.trainer.device);
    const teachers: Teacher[] = [];
    try {
      for (const [name, { model_path: path, key = null }] of entries) {
        const where = `distillation.teacher_models.${name}`;
        if (typeof path !== 'string') throw new UserError(`${where}.model_path must name a model`, { exitCode: 2 });
        if (key === null && entries.length > 1)
          throw new UserError(`${where}.key must say which rows are its own: there are several teachers`, {
            exitCode: 2,
          });
        const { folder, adapter } = await findModel(path);
        if (adapter) throw new UserError(`${where}.model_path=${path} is an adapter; merge it with verlet export`);
        checkVocabulary(student, await Tokenizer.load(folder), where);
        const dtype = device === 'cpu' ? 'float32' : 'bfloat16';
        const model = await asUserError(() => loadCausalLM(folder, { device, dtype }));
        model.setTrainable(false);
        teachers.push({ name, key: key === null ? null : String(key), model });
      }
    } catch (error) {
      for (const { model } of teachers) model.dispose();
      throw error;
    }
    return new Teachers(teachers, config, student.vocabSize);
  }

  /** Log-probabilities of the sampled tokens, [rows, responseWidth]; each row by its own teacher. */
  logProbs(batch: DataProto): Tensor {
    const minimum = this.config.distillation.distillation_loss.log_prob_min_clamp;
    return scope(() => {
      const total = zeros(batch.tensor('responses').shape);
      for (const { model, ...share } of this.shares(batch)) {
        const { logProbs } = scoreBatch(model, batch, share);
        total.add_(minimum === null ? logProbs : logProbs.clamp(minimum));
        logProbs.dispose();
      }
      return total;
    });
  }

  /** The likeliest tokens where the student sampled, [rows, responseWidth, topk]; zeros elsewhere. */
  topLogProbs(batch: DataProto): { ids: Tensor; logProbs: Tensor } {
    const source = rowSource(batch);
    const count = Math.min(this.config.distillation.distillation_loss.topk, this.vocabSize);
    const shape = [source.rows * source.responseWidth, count];
    return scope(() => {
      const ids = zeros(shape, { dtype: 'int32' });
      const logProbs = zeros(shape);
      for (const { model, microBatches, temperature, sharePrompts } of this.shares(batch))
        for (const rows of microBatches)
          scope(() => {
            const { packed, hidden } = forwardRows(model, source, rows, { sharePrompts });
            const top = nn.topLogProbs(hidden, model.headWeight, count, { temperature, among: this.vocabSize });
            const places = nn.indexTensor(packed.batchPlaces);
            ids.indexCopy_(0, places, top.ids.to('int32').to('cpu'));
            logProbs.indexCopy_(0, places, top.logProbs.to('cpu'));
            packed.dispose();
          });
      const [rows, width] = [source.rows, source.responseWidth];
      return { ids: ids.reshape(rows, width, count), logProbs: logProbs.reshape(rows, width, count) };
    });
  }

  /** What each teacher has to read, cut into passes. */
  private shares(batch: DataProto) {
    const source = rowSource(batch);
    const { rollout, model: settings } = this.config.actor_rollout_ref;
    return [...this.rowsOf(batch)].map(([{ model }, rows]) => ({
      model,
      temperature: rollout.temperature || 1,
      sharePrompts: settings.share_prompts,
      microBatches: microBatches(source, rows, {
        size: null,
        budget: rollout.log_prob_max_token_len_per_gpu,
        pack: packOptions(model, settings.share_prompts),
      }),
    }));
  }

  private rowsOf(batch: DataProto): Map<Teacher, number[]> {
    const everyRow = Array.from({ length: batch.length }, (_, row) => row);
    const only = this.teachers[0]!;
    if (this.teachers.length === 1 && only.key === null) return new Map([[only, everyRow]]);
    const column = this.config.distillation.teacher_key;
    const agentRows = batch.nonTensorBatch.get('agent_row') as readonly Record<string, unknown>[] | undefined;
    const values = batch.nonTensorBatch.get(column) ?? agentRows?.map((row) => row[column]);
    const groups = new Map<Teacher, number[]>();
    for (const row of everyRow) {
      const value = String(values?.[row]);
      const teacher = this.teachers.find(({ key }) => key === value);
      if (!teacher)
        throw new UserError(
          `no teacher has key ${JSON.stringify(value)}, the value of "${column}" (distillation.teacher_key) in a row; ` +
            `there are ${this.teachers.map(({ key }) => JSON.stringify(key)).join(', ')}`,
        );
      const own = groups.get(teacher);
      if (own) own.push(row);
      else groups.set(teacher, [row]);
    }
    return groups;
  }

  dispose(): void {
    for (const { model } of this.teachers) model.dispose();
  }
}

/** Token ids must mean the same to both. A teacher may know more tokens than its student. */
function checkVocabulary(student: Tokenizer, teacher: Tokenizer, where: string): void {
  for (let id = 0; id < student.vocabSize; id++) {
    const [own, other] = [student.idToToken(id), teacher.idToToken(id)];
    if (own !== other)
      throw new UserError(
        `${where}: token ${id} is ${JSON.stringify(own)} to the student and ${JSON.stringify(other)} to the teacher; ` +
          'both must have the same vocabulary',
      );
  }
}
