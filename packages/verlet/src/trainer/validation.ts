/** Held-out prompts, sampled as `val_kwargs` says and scored per data source. */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { AgentRow, Trajectory } from '../agents/index.js';
import type { PpoConfig } from '../config/index.js';
import type { DataLoader, RlItem } from '../data/index.js';
import type { ActorGroup } from './ppo.js';
import { addNeeded, type RewardLoop } from './reward-loop.js';
import { decidingRows } from './rollouts.js';
import { joinGenerated, promptRows } from './rows.js';
import { type ValidationSample, validationMetrics } from './validation-metrics.js';

export interface ValidationExample {
  prompt: string;
  response: string;
  score: number;
  dataSource: string;
  groundTruth: unknown;
  /** What the reward returned beside the score. */
  extras?: Readonly<Record<string, unknown>>;
}

export class Validator {
  /** The last run's samples, for reports and trackers. */
  examples: ValidationExample[] = [];

  constructor(
    private readonly config: PpoConfig,
    private readonly actor: ActorGroup,
    private readonly loader: DataLoader<RlItem>,
    private readonly reward: RewardLoop,
    private readonly decode: (ids: ArrayLike<number>) => string,
  ) {}

  async run(step: number): Promise<Record<string, number>> {
    const samples: ValidationSample[] = [];
    const turns: number[] = [];
    this.examples = [];
    await this.actor.wake();
    const batches = this.loader.batchesPerEpoch;
    for (let k = 0; k < batches; k++) {
      const prompts = promptRows(await this.loader.next(), this.config, step, { validate: true });
      const generated = await this.actor.generateSequences(prompts);
      delete generated.metaInfo.metrics;
      const batch = joinGenerated(prompts, generated);
      await addNeeded(this.actor, batch, this.reward.needs);
      const { scores, totals, samples: scored } = await this.reward.score(batch);
      const trajectories = batch.column<Trajectory>('trajectory');
      const rows = batch.column<AgentRow>('agent_row');
      // A program's run is one sample of its prompt, whatever the number of conversations it had.
      for (const row of new Set(decidingRows(batch))) {
        const sample = scored[row]!;
        const trajectory = trajectories[row]!;
        turns.push(trajectory.numTurns);
        const source = String(rows[row]!.data_source ?? 'unknown');
        const response = this.decode(trajectory.responseIds);
        samples.push({
          dataSource: source,
          prompt: `${source}:${trajectory.uid}`,
          response,
          values: { reward: totals[row]!, ...sample.extras },
        });
        this.examples.push({
          prompt: this.decode(trajectory.promptIds),
          response,
          score: totals[row]!,
          dataSource: source,
          groundTruth: rows[row]!.reward_model?.ground_truth,
          extras: sample.extras,
        });
      }
      scores.dispose();
      batch.dispose();
    }
    await this.actor.sleep();
    await this.dump(step);
    const metrics = validationMetrics(samples);
    if (turns.length)
      Object.assign(metrics, {
        'val-aux/num_turns/min': Math.min(...turns),
        'val-aux/num_turns/max': Math.max(...turns),
        'val-aux/num_turns/mean': turns.reduce((a, b) => a + b, 0) / turns.length,
      });
    return metrics;
  }

  /** Writes `STEP.jsonl` whole or not at all, under verl's names, as rollouts are. */
  private async dump(step: number): Promise<void> {
    const folder = this.config.trainer.validation_data_dir;
    if (!folder) return;
    await mkdir(folder, { recursive: true });
    const file = path.join(folder, `${step}.jsonl`);
    const rows = this.examples.map(({ prompt, response, score, dataSource, groundTruth, extras }) => ({
      ...extras,
      input: prompt,
      output: response,
      gts: groundTruth ?? null,
      score,
      step,
      data_source: dataSource,
    }));
    await writeFile(`${file}.tmp`, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    await rename(`${file}.tmp`, file);
  }
}
