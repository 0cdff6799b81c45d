/** Metrics of several rounds of rollouts in one step, as if the rounds had been one batch. */

type Metrics = Readonly<Record<string, number>>;

export interface Round {
  metrics: Metrics;
  /** Rollouts of the round: what a mean over them weighs. */
  rollouts: number;
}

/** Names that count something; all others are means, or the largest and smallest of something. */
const COUNTS = [
  /^agent\/(trajectories|tool_responses_truncated|reward_errors|programs|program_errors|programs_without_calls)$/,
  /^agent\/([^/]+\/)?(end_reason|tool_status)\//,
  /^agent\/[^/]+\/trajectories$/,
  /^state_tokens\/total$/,
  /^reward\/error_count$/,
];

export function mergeRounds(rounds: readonly Round[]): Record<string, number> {
  if (rounds.length === 1) return { ...rounds[0]!.metrics };
  const names = new Set(rounds.flatMap(({ metrics }) => Object.keys(metrics)));
  return Object.fromEntries([...names].map((name) => [name, merged(name, rounds)]));
}

const SLOWEST = 'timing_s/agent_loop/slowest/';

/** The slowest of all trajectories is one of one round, told whole. */
function slowestRound(rounds: readonly Round[]): Metrics {
  const seconds = (metrics: Metrics): number =>
    ['generate_sequences', 'tool_calls', 'compute_score'].reduce(
      (sum, part) => sum + (metrics[SLOWEST + part] ?? 0),
      0,
    );
  const having = rounds.map(({ metrics }) => metrics).filter((metrics) => `${SLOWEST}response_length` in metrics);
  return having.reduce((most, other) => (seconds(other) > seconds(most) ? other : most));
}

function merged(name: string, rounds: readonly Round[]): number {
  if (name.startsWith(SLOWEST)) return slowestRound(rounds)[name]!;
  const having = rounds.filter(({ metrics }) => name in metrics);
  const values = having.map(({ metrics }) => metrics[name]!);
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, value) => total + value, 0);
  if (COUNTS.some((pattern) => pattern.test(name))) return sum(values);
  if (name.endsWith('/max')) return Math.max(...values);
  if (name.endsWith('/min')) return Math.min(...values);
  // A share of tokens weighs tokens, everything else rollouts.
  const weights = having.map(({ metrics, rollouts }) =>
    name === 'state_tokens/coverage' ? metrics['state_tokens/total']! : rollouts,
  );
  const total = sum(weights);
  return total > 0 ? sum(values.map((value, k) => value * weights[k]!)) / total : sum(values) / values.length;
}
