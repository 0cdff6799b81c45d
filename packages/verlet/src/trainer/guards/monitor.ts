import { type Metrics, RULES, type Rule } from './rules.js';

/** The first steps against which drift is measured. */
const REFERENCE_STEPS = 5;
const REFERENCE_NAMES = ['actor/entropy', 'response_length/mean', 'guard/repetition'];

interface RuleState {
  /** Steps in a row in which the rule found something, or (once raised) in which it did not. */
  streak: number;
  raised: boolean;
}

/** Follows the metrics of a run and says each situation once: again only after it had passed. */
export class GuardMonitor {
  private readonly start = new Map<string, { sum: number; count: number }>();
  private steps = 0;
  private readonly states: Map<Rule, RuleState>;

  constructor(rules: readonly Rule[] = RULES) {
    this.states = new Map(rules.map((rule) => [rule, { streak: 0, raised: false }]));
  }

  /** The warnings that this step brings. */
  observe(metrics: Metrics): string[] {
    if (this.steps < REFERENCE_STEPS) {
      this.steps++;
      for (const name of REFERENCE_NAMES) {
        const value = metrics[name];
        if (value === undefined || !Number.isFinite(value)) continue;
        const entry = this.start.get(name) ?? { sum: 0, count: 0 };
        this.start.set(name, { sum: entry.sum + value, count: entry.count + 1 });
      }
    }
    const start = Object.fromEntries([...this.start].map(([name, { sum, count }]) => [name, sum / count]));
    const warnings: string[] = [];
    for (const [rule, state] of this.states) {
      const found = rule.check(metrics, start);
      state.streak = (found !== null) !== state.raised ? state.streak + 1 : 0;
      if (state.streak < rule.patience) continue;
      state.streak = 0;
      state.raised = !state.raised;
      if (found !== null) warnings.push(found);
    }
    return warnings;
  }

  /** Numbers for the trackers: how many situations stand now. */
  get active(): number {
    return [...this.states.values()].filter((state) => state.raised).length;
  }
}
