import type { Tracker } from '../trackers/index.js';

/** One line a step with what people look at first when a loss is to go down. */
export class LossConsole implements Tracker {
  readonly name = 'console';

  constructor(
    private readonly totalSteps: number,
    private readonly write: (line: string) => void,
  ) {}

  log(metrics: Readonly<Record<string, number>>, step: number): void {
    const shown = Object.entries(metrics).flatMap(([name, value]) => {
      if (name === 'train/lr') return [`lr ${value.toExponential(2)}`];
      if (name === 'train/tokens_per_second') return [`tok/s ${value.toFixed(0)}`];
      if (/^train\/(loss|accuracy|grad_norm)$/.test(name)) return [`${name.slice(6)} ${value.toFixed(4)}`];
      return name.startsWith('val/') ? [`${name} ${value.toFixed(4)}`] : [];
    });
    this.write(`step ${step}/${this.totalSteps}  ${shown.join('  ')}`);
  }

  notice(text: string): void {
    this.write(text);
  }
}
