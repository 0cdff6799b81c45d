/** What a terminal shows while a run goes on: a few lines at the bottom that are redrawn in place. */
import type { MetricRecord } from './jsonl.js';
import { sparkline } from './sparkline.js';
import type { Metrics, Tracker } from './types.js';
import { clock, count, klOf, short, validationScores } from './words.js';

/** The part of `process.stdout` that the view needs. */
export interface Terminal {
  write(text: string): boolean;
  readonly columns?: number;
}

export interface LiveViewOptions {
  title: string;
  totalSteps: number;
  terminal: Terminal;
  /** Streams whose output goes above the view: everything else that prints while it is there. */
  others?: { write: (...args: never[]) => boolean }[];
  /** What a resumed run has logged before. */
  history?: () => readonly MetricRecord[];
  now?: () => number;
}

export class LiveView implements Tracker {
  readonly name = 'console';
  private readonly scores: number[] = [];
  private readonly validations = new Map<string, number[]>();
  private drawn = 0;
  private firstStep: number | null = null;
  private latest: Metrics = {};
  private step = 0;
  private readonly now: () => number;
  private readonly startedAt: number;
  /** When the first step began. */
  private steppingSince: number;
  private readonly restore: (() => void)[] = [];
  private readonly put: (text: string) => void;

  constructor(private readonly options: LiveViewOptions) {
    this.now = options.now ?? (() => performance.now() / 1000);
    this.startedAt = this.now();
    this.steppingSince = this.startedAt;
    const write = options.terminal.write.bind(options.terminal);
    this.put = (text) => void write(text);
    for (const stream of options.others ?? []) this.yieldTo(stream);
  }

  start(step: number): void {
    this.step = step;
    this.steppingSince = this.now();
    for (const record of step > 0 ? (this.options.history?.() ?? []) : [])
      if (record.step <= step) this.remember(record.data);
    this.redraw('');
  }

  log(metrics: Metrics, step: number): void {
    this.step = step;
    if (step === 0) this.steppingSince = this.now();
    if (step > 0) {
      this.firstStep ??= step;
      this.latest = metrics;
    }
    this.remember(metrics);
    const news = validationScores(metrics)
      .map(([label, value]) => `${label} ${short(value)}`)
      .join(', ');
    this.redraw(news ? `validation at step ${step}: ${news}\n` : '');
  }

  private remember(metrics: Metrics): void {
    const score = metrics['critic/score/mean'] ?? metrics['train/loss'];
    if (score !== undefined) this.scores.push(score);
    for (const [label, value] of validationScores(metrics))
      this.validations.set(label, [...(this.validations.get(label) ?? []), value]);
  }

  notice(text: string): void {
    this.redraw(`${text}\n`);
  }

  finish(): void {
    for (const restore of this.restore.splice(0)) restore();
    this.drawn = 0;
  }

  /** The lines as they stand now. */
  lines(): string[] {
    const { title, totalSteps } = this.options;
    const metrics = this.latest;
    const part = totalSteps > 0 ? this.step / totalSteps : 0;
    const full = Math.round(part * 24);
    const bar = '█'.repeat(full) + '░'.repeat(24 - full);
    const elapsed = this.now() - this.startedAt;
    const done = this.firstStep === null ? 0 : this.step - this.firstStep + 1;
    const perStep = (this.now() - this.steppingSince) / done;
    const left = done > 0 ? clock(perStep * (totalSteps - this.step)) : '?';
    const lines = [
      `${title}  ${bar} ${Math.round(part * 100)}%  step ${this.step}/${totalSteps}  ${clock(elapsed)} gone, ${left} left`,
    ];
    const row = (label: string, parts: (string | null)[]): void => {
      const words = parts.filter((word) => word !== null);
      if (words.length) lines.push(`  ${label.padEnd(8)}${words.join('  ')}`);
    };
    const value = (name: string, label = '', say = short): string | null =>
      metrics[name] === undefined ? null : `${label}${say(metrics[name])}`;
    const score = this.scores.at(-1);
    if (score !== undefined)
      row(metrics['train/loss'] === undefined ? 'reward' : 'loss', [short(score).padEnd(8), sparkline(this.scores)]);
    for (const [label, values] of this.validations)
      row('valid', [short(values.at(-1)!).padEnd(8), sparkline(values), label]);
    const kl = klOf(metrics);
    row('policy', [
      kl === undefined ? null : `KL ${short(kl)}`,
      value('actor/entropy', 'entropy '),
      value('actor/grad_norm', 'gradient '),
    ]);
    row('length', [value('response_length/mean'), value('response_length/clip_ratio', 'cut off ', percent)]);
    row('speed', [
      value('perf/throughput', '', (tokens) => `${count(tokens)} tokens/s`),
      value('timing_s/step', '', (seconds) => `${short(seconds)} s/step`),
      value('timing_s/gen', 'generation ', (seconds) => percent(seconds / (metrics['timing_s/step'] ?? Infinity))),
    ]);
    // A terminal that does not know its width says 0.
    const width = (this.options.terminal.columns || 100) - 1;
    return lines.map((line) => [...line].slice(0, width).join(''));
  }

  /** Clears the view, prints what stays, draws the view below it: one write, so that nothing flickers. */
  private redraw(above: string): void {
    const lines = this.lines();
    this.put(`${this.clearing()}${above}${lines.join('\n')}\n`);
    this.drawn = lines.length;
  }

  private clearing(): string {
    return this.drawn > 0 ? `\x1b[${this.drawn}A\x1b[0J` : '';
  }

  private yieldTo(stream: { write: (...args: never[]) => boolean }): void {
    const original = stream.write;
    stream.write = (...args: never[]): boolean => {
      if (this.drawn === 0) return original.apply(stream, args);
      this.put(this.clearing());
      const written = original.apply(stream, args);
      const text = String(args[0]);
      // A line that is not finished yet would be cut by the view: it goes on a line of its own.
      if (!text.endsWith('\n')) this.put('\n');
      this.put(`${this.lines().join('\n')}\n`);
      return written;
    };
    this.restore.push(() => {
      stream.write = original;
    });
  }
}

function percent(part: number): string {
  return `${Math.round(part * 100)}%`;
}
