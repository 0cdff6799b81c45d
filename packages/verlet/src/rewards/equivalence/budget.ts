/** Model output decides how much work a comparison is; a budget makes sure that it never decides how long training waits. */

/** The comparison gave up: too much work, a number too large to write down, or syntax that is not understood. */
export class Undecided extends Error {}

/** The expression has no value at this point (division by zero, logarithm of zero ...). */
export class Undefined extends Error {}

export interface Limits {
  /** Longest answer text that is parsed; longer ones are compared as strings. */
  maxCharacters: number;
  /** Deepest nesting of groups. */
  maxDepth: number;
  /** Elementary operations per comparison. */
  maxSteps: number;
  /** Largest integer that is written out, in bits; `2^{100000}` stays a symbol. */
  maxBits: number;
  /** Largest argument of a factorial or binomial. */
  maxFactorial: number;
  /** Wall-clock limit of one comparison. */
  deadlineMs: number;
}

export const defaultLimits: Limits = {
  maxCharacters: 2_000,
  maxDepth: 40,
  maxSteps: 100_000,
  maxBits: 16_384,
  maxFactorial: 1_000,
  deadlineMs: 1_000,
};

export class Budget {
  private steps = 0;
  private readonly endsAt: number;

  constructor(readonly limits: Limits = defaultLimits) {
    this.endsAt = performance.now() + limits.deadlineMs;
  }

  spend(steps = 1): void {
    const before = this.steps;
    this.steps += steps;
    if (this.steps > this.limits.maxSteps) throw new Undecided(`more than ${this.limits.maxSteps} steps`);
    // The clock is read every 256 steps: reading it costs more than most steps do.
    if (before >> 8 !== this.steps >> 8 && performance.now() > this.endsAt) {
      throw new Undecided(`longer than ${this.limits.deadlineMs} ms`);
    }
  }

  checkDepth(depth: number): void {
    if (depth > this.limits.maxDepth) throw new Undecided(`nested deeper than ${this.limits.maxDepth}`);
  }

  checkBits(bits: number): void {
    if (!(bits <= this.limits.maxBits)) throw new Undecided(`a number of more than ${this.limits.maxBits} bits`);
  }
}
