/** Divergences between a teacher and a student over the tokens that the teacher finds likeliest. */
import { scope, type Tensor } from '@verlet/torch';

export const TOP_K_DIVERGENCES = ['forward_kl_topk', 'forward_kl_topk_tail', 'reverse_kl_topk_tail'] as const;
export type TopKDivergence = (typeof TOP_K_DIVERGENCES)[number];

export function isTopKDivergence(name: string): name is TopKDivergence {
  return (TOP_K_DIVERGENCES as readonly string[]).includes(name);
}

export interface TopKDivergenceOptions {
  mode: TopKDivergence;
  /** Smaller log-probabilities count as this one, on both sides. */
  logProbMinClamp?: number | null;
  /** A token's divergence is cut at this, on both sides of zero. */
  lossMaxClamp?: number | null;
}

/** A probability that is not quite 1: the tail of a distribution that is all in its likeliest tokens. */
const LEAST_TAIL = 1e-6;

/**
 * With p the teacher's and q the student's probability over the teacher's k likeliest tokens: forward is the sum of
 * p (log p - log q), reverse of q (log q - log p).
 *
 * verl's `forward_kl_topk` leaves all other tokens out. Its minimum is a student that puts everything on those k, which is right
 * only where the teacher does so too. The `_tail` forms count all other tokens as one more: a real divergence, zero where the
 * two agree. With k the whole vocabulary all of them are the KL itself.
 *
 * @param student log q, [..., k]
 * @param teacher log p, [..., k]
 * @returns [...]
 */
export function topKDivergence(student: Tensor, teacher: Tensor, options: TopKDivergenceOptions): Tensor {
  const { mode, logProbMinClamp: lowest = null, lossMaxClamp: most = null } = options;
  return scope(() => {
    const clamped = (values: Tensor): Tensor => (lowest === null ? values : values.clamp(lowest));
    const [logQ, logP] = [clamped(student), clamped(teacher)];
    const term = (a: Tensor, b: Tensor): Tensor =>
      mode.startsWith('forward') ? b.exp().mul(b.sub(a)) : a.exp().mul(a.sub(b));
    let sum = term(logQ, logP).sum(-1);
    if (mode.endsWith('_tail')) sum = sum.add(term(tailOf(student), tailOf(teacher)));
    return most === null ? sum : sum.clamp(-most, most);
  });
}

/** Log-probability of all tokens that are not named, [...]. */
function tailOf(logProbs: Tensor): Tensor {
  return logProbs.exp().sum(-1).neg().add(1).clamp(LEAST_TAIL).log();
}
