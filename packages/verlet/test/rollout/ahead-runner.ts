/** The CPU's runner behind the interface of one that launches steps ahead of the host: what CUDA does, without CUDA. */
import { EagerRunner, type LaunchedStep } from '../../src/rollout/model-runner.js';
import { needsHost, type Sampled } from '../../src/rollout/sampler.js';
import type { Sequence } from '../../src/rollout/sequence.js';

class Launched implements LaunchedStep {
  private collected = false;

  constructor(
    readonly sequences: readonly Sequence[],
    readonly sampled: readonly Sampled[],
  ) {}

  collect(): Sampled[] {
    if (this.collected) throw new Error('a step was collected twice');
    this.collected = true;
    return [...this.sampled];
  }
}

export class AheadRunner extends EagerRunner {
  numAhead = 0;

  canLaunch(sequences: readonly Sequence[]): boolean {
    return !sequences.some(needsHost);
  }

  launch(sequences: readonly Sequence[], after: LaunchedStep | null): LaunchedStep {
    if (!after) return new Launched(sequences, this.decode(sequences));
    this.numAhead++;
    const before = after as Launched;
    // The host does not know these tokens yet: they are there for this pass only.
    const tokenOf = new Map(before.sequences.map((sequence, row) => [sequence, before.sampled[row]!.tokenId]));
    for (const sequence of sequences) {
      const token = tokenOf.get(sequence);
      if (token === undefined) throw new Error('a sequence was not in the step before');
      sequence.tokens.push(token);
    }
    try {
      return new Launched(sequences, this.decode(sequences));
    } finally {
      for (const sequence of sequences) sequence.tokens.pop();
    }
  }
}
