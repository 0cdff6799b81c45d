/**
 * Who runs next. Sequences wait, run, finish. Prompts go first, as many as memory and the token budget allow, long ones in
 * chunks; then everybody who runs gets one token. When memory runs out the youngest gives up its blocks and waits again: its
 * tokens are kept, and computing them again gives the same continuation.
 */
import type { BlockPool } from './blocks.js';
import type { Sequence } from './sequence.js';

export interface SchedulerLimits {
  maxNumSeqs: number;
  maxNumBatchedTokens: number;
  enablePrefixCaching: boolean;
}

/** A run of tokens to compute, for one or more sequences that share them (the n samples of one prompt). */
export interface PrefillJob {
  sequences: Sequence[];
  start: number;
  end: number;
  /** The last token is among them, so a next token is sampled for every sequence. */
  completes: boolean;
}

export type Schedule =
  | { kind: 'prefill'; jobs: PrefillJob[] }
  | { kind: 'decode'; sequences: Sequence[] }
  | { kind: 'idle' };

/** Contents of one block are copied to another before the next pass: a sample got its own copy of a shared, half-full block. */
export interface BlockCopy {
  from: number;
  to: number;
}

export class Scheduler {
  readonly waiting: Sequence[] = [];
  readonly running: Sequence[] = [];
  /** Admitted, but part of the prompt is still to be computed. */
  private partial: PrefillJob[] = [];
  readonly copies: BlockCopy[] = [];
  numPreempted = 0;

  constructor(
    private readonly pool: BlockPool,
    private readonly limits: SchedulerLimits,
  ) {}

  get hasWork(): boolean {
    return this.waiting.length > 0 || this.running.length > 0 || this.partial.length > 0;
  }

  get numUnfinished(): number {
    return this.waiting.length + this.running.length + this.partial.reduce((sum, job) => sum + job.sequences.length, 0);
  }

  add(sequence: Sequence): void {
    this.waiting.push(sequence);
  }

  schedule(): Schedule {
    const jobs = this.schedulePrefill();
    if (jobs.length > 0) return { kind: 'prefill', jobs };
    const sequences = this.scheduleDecode();
    return sequences.length > 0 ? { kind: 'decode', sequences } : { kind: 'idle' };
  }

  private schedulePrefill(): PrefillJob[] {
    const jobs: PrefillJob[] = [];
    let budget = this.limits.maxNumBatchedTokens;
    const unfinished = this.partial;
    this.partial = [];
    for (const job of unfinished) {
      if (budget <= 0) {
        this.partial.push(job);
        continue;
      }
      const next = this.cut(job.sequences, job.end, budget);
      budget -= next.end - next.start;
      jobs.push(next);
    }
    let room =
      this.limits.maxNumSeqs - this.running.length - unfinished.reduce((sum, job) => sum + job.sequences.length, 0);
    while (this.waiting.length > 0 && budget > 0 && room > 0 && this.partial.length === 0) {
      const sequences = this.admit(room);
      if (!sequences) break;
      room -= sequences.length;
      const job = this.cut(sequences, sequences[0]!.numComputed, budget);
      budget -= job.end - job.start;
      jobs.push(job);
    }
    for (const job of jobs) if (!job.completes) this.partial.push(job);
    return jobs;
  }

  private cut(sequences: Sequence[], start: number, budget: number): PrefillJob {
    const total = sequences[0]!.tokens.length;
    const end = Math.min(total, start + budget);
    return { sequences, start, end, completes: end === total };
  }

  /** Gives blocks to the first waiting sequence and to those behind it with the same tokens; null when memory does not reach. */
  private admit(room: number): Sequence[] | null {
    const leader = this.waiting[0]!;
    const { pool } = this;
    leader.blockKeys.extend(leader.tokens);
    const found = this.limits.enablePrefixCaching ? this.findPrefix(leader) : [];
    for (const block of found) pool.hold(block);
    const needed = this.blocksFor(leader) - found.length;
    const { slack } = this;
    if (needed + slack > pool.numFree) {
      for (const block of found) pool.drop(block);
      return null;
    }
    leader.blocks = [...found];
    for (let k = 0; k < needed; k++) leader.blocks.push(pool.take()!);
    leader.numComputed = found.length * pool.blockSize;
    if (leader.numOutput === 0) leader.numCachedTokens = leader.numComputed;
    this.waiting.shift();
    const group = [leader];
    if (leader.numOutput === 0) this.gather(leader, group, room, slack);
    return group;
  }

  /** Samples of the same prompt join the leader: full blocks are shared, the half-full last one is copied once it is computed. */
  private gather(leader: Sequence, group: Sequence[], room: number, slack: number): void {
    const { pool } = this;
    const full = Math.floor(leader.tokens.length / pool.blockSize);
    const own = leader.blocks.length - full;
    for (let k = 0; k < this.waiting.length && group.length < room; ) {
      const candidate = this.waiting[k]!;
      if (candidate.numOutput > 0 || !sameTokens(candidate.tokens, leader.tokens)) {
        // Samples of one prompt are submitted together; looking further would cost a pass over the whole queue.
        if (k >= 4) break;
        k++;
        continue;
      }
      if (own + slack > pool.numFree) break;
      this.waiting.splice(k, 1);
      candidate.blocks = leader.blocks.slice(0, full);
      for (const block of candidate.blocks) pool.hold(block);
      for (let j = 0; j < own; j++) candidate.blocks.push(pool.take()!);
      candidate.numComputed = leader.numComputed;
      candidate.numCachedTokens = leader.tokens.length;
      group.push(candidate);
    }
  }

  /** Blocks that already hold the beginning of the sequence. The last token is always computed: its logits are needed. */
  private findPrefix(sequence: Sequence): number[] {
    const found: number[] = [];
    const most = Math.floor((sequence.tokens.length - 1) / this.pool.blockSize);
    for (const key of sequence.blockKeys.keys.slice(0, most)) {
      const block = this.pool.find(key);
      if (block === undefined) break;
      found.push(block);
    }
    return found;
  }

  /**
   * While a decode step is in flight: who gets another token right behind it. Null when that cannot be said before the step
   * has landed: prompts wait that can be admitted, or memory is too short.
   */
  scheduleNext(): Sequence[] | null {
    if (this.partial.length > 0 || this.canAdmit()) return null;
    const { pool } = this;
    // One token is on its way for each of them.
    const next = this.running.filter((sequence) => sequence.numOutput + 1 < sequence.maxTokens);
    let needed = 0;
    for (const sequence of next) if (sequence.blocks.length * pool.blockSize <= sequence.tokens.length) needed++;
    if (needed > pool.numFree) return null;
    for (const sequence of next)
      if (sequence.blocks.length * pool.blockSize <= sequence.tokens.length) sequence.blocks.push(pool.take()!);
    return next;
  }

  private canAdmit(): boolean {
    const leader = this.waiting[0];
    if (!leader || this.running.length >= this.limits.maxNumSeqs) return false;
    leader.blockKeys.extend(leader.tokens);
    const found = this.limits.enablePrefixCaching ? this.findPrefix(leader) : [];
    // Found blocks that nobody holds are counted as free, but are not free to be taken.
    const idle = found.filter((block) => !this.pool.isHeld(block)).length;
    return this.blocksFor(leader) - found.length + this.slack <= this.pool.numFree - idle;
  }

  private blocksFor(sequence: Sequence): number {
    return Math.ceil((sequence.tokens.length + 1) / this.pool.blockSize);
  }

  /** Blocks for the next tokens of those who run keep a newcomer from being thrown out at once. */
  private get slack(): number {
    return Math.min(this.running.length, 8);
  }

  private scheduleDecode(): Sequence[] {
    for (const sequence of [...this.running]) {
      // Thrown out by an older one in this very loop: its blocks are gone.
      if (sequence.blocks.length === 0) continue;
      while (sequence.blocks.length > 0 && sequence.blocks.length * this.pool.blockSize < sequence.tokens.length) {
        const block = this.pool.take();
        if (block !== null) sequence.blocks.push(block);
        else this.preempt(this.running[this.running.length - 1]!);
      }
    }
    return [...this.running];
  }

  /** Room for up to `steps` tokens of each who runs. @returns how many there is room for; nobody is thrown out for it */
  reserve(sequences: readonly Sequence[], steps: number): number {
    const { pool } = this;
    const left = (sequence: Sequence): number => sequence.maxTokens - sequence.numOutput;
    const wanted = Math.min(steps, Math.max(...sequences.map(left)));
    // The last token sampled is not stored, the one before the first is.
    const missing = (sequence: Sequence): number =>
      Math.ceil((sequence.tokens.length + Math.min(wanted, left(sequence)) - 1) / pool.blockSize) -
      sequence.blocks.length;
    let needed = 0;
    for (const sequence of sequences) needed += Math.max(0, missing(sequence));
    if (needed > pool.numFree) return 1;
    for (const sequence of sequences) for (let k = missing(sequence); k > 0; k--) sequence.blocks.push(pool.take()!);
    return wanted;
  }

  private preempt(sequence: Sequence): void {
    this.running.splice(this.running.indexOf(sequence), 1);
    this.release(sequence);
    this.waiting.unshift(sequence);
    this.numPreempted++;
  }

  /** A prefill pass is done: its keys and values are in the cache. */
  prefilled(job: PrefillJob): void {
    const [leader, ...others] = job.sequences as [Sequence, ...Sequence[]];
    leader.numComputed = job.end;
    this.remember(leader);
    if (!job.completes) return;
    const full = Math.floor(job.end / this.pool.blockSize);
    for (const sequence of others) {
      sequence.numComputed = job.end;
      if (job.end % this.pool.blockSize !== 0)
        this.copies.push({ from: leader.blocks[full]!, to: sequence.blocks[full]! });
    }
    this.running.push(...job.sequences.filter((sequence) => !sequence.isFinished));
  }

  /** A decode pass is done: the keys and values of the last token before it are in the cache. */
  decoded(sequence: Sequence): void {
    sequence.numComputed++;
    if (sequence.numComputed % this.pool.blockSize === 0) this.remember(sequence);
  }

  private remember(sequence: Sequence): void {
    if (!this.limits.enablePrefixCaching) return;
    sequence.blockKeys.extend(sequence.tokens);
    const full = Math.floor(sequence.numComputed / this.pool.blockSize);
    for (let k = 0; k < full; k++) this.pool.remember(sequence.blocks[k]!, sequence.blockKeys.keys[k]!);
  }

  /** Takes a sequence out, wherever it is, and frees its blocks. */
  remove(sequence: Sequence): void {
    for (const list of [this.waiting, this.running]) {
      const at = list.indexOf(sequence);
      if (at >= 0) list.splice(at, 1);
    }
    for (const job of this.partial) {
      const at = job.sequences.indexOf(sequence);
      // The first of a group computes for all; when it goes, the next one inherits its blocks' contents by sharing them.
      if (at === 0 && job.sequences.length > 1) this.inherit(job);
      else if (at >= 0) job.sequences.splice(at, 1);
    }
    this.partial = this.partial.filter((job) => job.sequences.length > 0);
    this.release(sequence);
  }

  private inherit(job: PrefillJob): void {
    const [leader, heir] = job.sequences as [Sequence, Sequence];
    const swap = heir.blocks;
    heir.blocks = leader.blocks;
    heir.numComputed = leader.numComputed;
    leader.blocks = swap;
    job.sequences.shift();
  }

  private release(sequence: Sequence): void {
    // Last blocks first: the beginning of a sequence is what others may share, so it should be reused last.
    for (const block of sequence.blocks.reverse()) this.pool.drop(block);
    sequence.blocks = [];
    sequence.numComputed = 0;
  }

  /** The cache was lost (sleep, new weights): everybody who ran starts over from its tokens. */
  restartAll(): void {
    const all = [...this.partial.flatMap((job) => job.sequences), ...this.running];
    this.partial = [];
    this.running.length = 0;
    for (const sequence of all) this.release(sequence);
    this.waiting.unshift(...all);
    this.copies.length = 0;
  }
}

function sameTokens(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let k = a.length - 1; k >= 0; k--) if (a[k] !== b[k]) return false;
  return true;
}
