import type { Tracker } from './index.js';

/** One line a step with what people look at first. */
export class ConsoleTracker implements Tracker {
  readonly name = 'console';
  constructor(
    private readonly totalSteps: number,
    private readonly write: (line: string) => void = (line) => process.stdout.write(`${line}\n`),
  ) {}
  log(metrics: Readonly<Record<string, number>>, step: number): void {
    const show = (name: string, label: string, digits = 3): string =>
      metrics[name] === undefined ? '' : ` ${label} ${metrics[name].toFixed(digits)}`;
    const validation = Object.entries(metrics).filter(([name]) => name.startsWith('val-core/'));
    const line = `step ${step}/${this.totalSteps}${show('critic/score/mean', 'score')}${show('actor/entropy', 'entropy')}${show('actor/ppo_kl', 'kl', 5)}${show('response_length/mean', 'length', 1)}${show('actor/grad_norm', 'grad', 2)}${show('perf/throughput', 'tok/s', 0)}${show('timing_s/step', 's/step', 2)}`;
    this.write(line + validation.map(([name, value]) => ` ${name} ${value.toFixed(3)}`).join(''));
  }
}
