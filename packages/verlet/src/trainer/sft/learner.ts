/** What learns from batches of examples, whatever its loss: fine-tuning, preferences, reward models. */

export interface Learner<Item> {
  /** One optimiser step. `progress` is the number of finished steps; the schedule follows it. */
  step(items: readonly Item[], progress: number): Record<string, number>;
  /** Losses on held-out examples, under `val/`. */
  validate(items: readonly Item[]): Record<string, number>;
  saveCheckpoint(folder: string): Promise<void>;
  loadCheckpoint(folder: string): Promise<void>;
  close(): void;
}
