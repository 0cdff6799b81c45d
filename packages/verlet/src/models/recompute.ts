/** What backward computes again instead of finding it kept: memory against time, never against the numbers. */

/**
 * - `none`: nothing but what one cheap kernel gives again, the norms and SwiGLU's output.
 * - `selective`: also the wide first projection of the feed-forward part, which is most of the memory and a seventh of the
 *   arithmetic.
 * - `full`: everything inside a layer but its last projection; only what enters it is kept.
 */
export type Recompute = 'none' | 'selective' | 'full';

export interface RecomputePlan {
  mode: Recompute;
  /** How many layers, from the first, do so; the others keep all. By default every layer. */
  layers?: number | null;
}

/** In short: a mode for all layers, or whether to recompute at all; then it is the best trade, `selective`. */
export type RecomputeChoice = boolean | Recompute | RecomputePlan;

export function recomputeAt(layer: number, choice: RecomputeChoice = false): Recompute {
  if (typeof choice === 'boolean') return choice ? 'selective' : 'none';
  if (typeof choice === 'string') return choice;
  return layer < (choice.layers ?? Number.POSITIVE_INFINITY) ? choice.mode : 'none';
}

/** The keys of a model's configuration that say so. */
export interface RecomputeKeys {
  enable_gradient_checkpointing: boolean;
  recompute_granularity: 'selective' | 'full';
  recompute_num_layers: number | null;
}

/** On the CPU all is kept: memory is not what is short there. */
export function recomputePlan(keys: RecomputeKeys, device: string): RecomputePlan {
  const { enable_gradient_checkpointing: recomputes, recompute_granularity: mode, recompute_num_layers: layers } = keys;
  return recomputes && device !== 'cpu' ? { mode, layers } : { mode: 'none' };
}
