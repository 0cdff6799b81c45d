/** What learns from batches of examples, whatever its loss: fine-tuning, preferences, reward models. */

export interface Learner<Item> {
  /** One optimiser step. `progress` is the number of finished steps; the schedule follows it. */
  step(items: readonly Item[], progress: number): Record<string, number>;
  /** Means over held-out examples, under `val/`. They come in several calls; `weight` says what each counts. */
  validate(items: readonly Item[]): Validation;
  saveCheckpoint(folder: string): Promise<void>;
  loadCheckpoint(folder: string): Promise<void>;
  close(): void;
}

export interface Validation {
  metrics: Record<string, number>;
  weight: number;
}
