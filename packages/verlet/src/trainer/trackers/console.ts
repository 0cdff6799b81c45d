import type { Metrics, Tracker } from './types.js';
import { clock, count, klOf, short, validationScores } from './words.js';

/** Plain lines, for logs and pipes: one a step with what people look at first. */
export class ConsoleTracker implements Tracker {
  readonly name = 'console';
  private firstStep: number | null = null;
  private started: number;

  constructor(
    private readonly totalSteps: number,
    private readonly write: (line: string) => void = (line) => process.stdout.write(`${line}\n`),
    private readonly now: () => number = () => performance.now() / 1000,
  ) {
    this.started = now();
  }

  start(): void {
    this.started = this.now();
  }

  log(metrics: Metrics, step: number): void {
    const show = (label: string, value: number | undefined, say = short): string[] =>
      value === undefined ? [] : [`${label} ${say(value)}`];
    const parts = [
      ...show('score', metrics['critic/score/mean']),
      ...show('loss', metrics['train/loss']),
      ...show('entropy', metrics['actor/entropy']),
      ...show('kl', klOf(metrics)),
      ...show('length', metrics['response_length/mean']),
      ...show('grad', metrics['actor/grad_norm']),
      ...show('tok/s', metrics['perf/throughput'], count),
      ...show('s/step', metrics['timing_s/step']),
      ...show('left', this.secondsLeft(step), clock),
      ...validationScores(metrics).map(([label, value]) => `val ${label} ${short(value)}`),
    ];
    this.write(`step ${step}/${this.totalSteps} ${parts.join(' ')}`.trimEnd());
  }

  notice(text: string): void {
    this.write(text);
  }

  private secondsLeft(step: number): number | undefined {
    if (step === 0) {
      // The validation before the first step says nothing about how long steps take.
      this.started = this.now();
      return undefined;
    }
    this.firstStep ??= step;
    const done = step - this.firstStep + 1;
    return ((this.now() - this.started) / done) * (this.totalSteps - step);
  }
}
