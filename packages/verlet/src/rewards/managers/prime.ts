import { createScorer, type Scorer } from '../functions/scorer.js';
import { createWorkerScorer, type WorkerScorerOptions } from '../functions/worker-scorer.js';
import { codeDataSources } from '../scores/index.js';
import type { RewardInput } from '../types.js';
import { NaiveRewardManager } from './naive.js';
import type { ErrorPolicy } from './outcome.js';

export interface PrimeOptions extends WorkerScorerOptions, ErrorPolicy {}

/** Whether the function has (or needs) no thread: Python files have processes of their own, closures live only here. */
const runsHere = (scorer: Scorer): boolean =>
  !scorer.source || scorer.type === 'batch' || (scorer.source !== 'default' && scorer.source.path.endsWith('.py'));

/** Threads for everything but code: programs run in the sandbox of this process, which has its own limits. */
function inThreads(scorer: Scorer, options: PrimeOptions): Scorer {
  const threads = createWorkerScorer(scorer, options);
  if (scorer.source !== 'default') return threads;
  const compute = (input: RewardInput) =>
    (codeDataSources.includes(input.data_source) ? scorer : threads).scoreOne(input);
  return createScorer({
    type: 'sequential',
    compute,
    options: scorer.options,
    source: 'default',
    close: threads.close,
  });
}

/** Samples in parallel, each under its own deadline, in threads that are ended when it passes. */
export class PrimeRewardManager extends NaiveRewardManager {
  constructor(scorer: Scorer, options: PrimeOptions = {}) {
    const { strict, error_score, warn, timeout_s = 300 } = options;
    const here = runsHere(scorer);
    // In threads the deadline starts with the work, not with the wait for a free thread.
    const timeout = here && scorer.source === undefined ? { timeout_s } : {};
    super(
      here ? scorer : inThreads(scorer, { ...options, timeout_s }),
      { strict, error_score, warn, concurrency: 64, ...timeout },
      'prime',
    );
  }
}
