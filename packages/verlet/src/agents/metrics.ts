import { rewardChannels } from './rewards.js';
import type { Trajectory } from './types.js';

/** Flat metric names as trackers want them. */
export type Metrics = Record<string, number>;

/** What a batch of trajectories was like: turns, lengths, why they ended, how tools fared, rewards by channel and task. */
const TIMED = ['generate_sequences', 'tool_calls', 'compute_score'] as const;

/** The trajectory for which all others waited. */
function slowest(trajectories: readonly Trajectory[]): Metrics {
  const seconds = ({ timing }: Trajectory): number => sum(TIMED.map((key) => timing[key]));
  const one = trajectories.reduce((most, other) => (seconds(other) > seconds(most) ? other : most));
  const at = 'timing_s/agent_loop/slowest';
  return {
    ...Object.fromEntries(TIMED.map((key) => [`${at}/${key}`, one.timing[key]])),
    [`${at}/prompt_length`]: one.promptIds.length,
    [`${at}/response_length`]: one.responseIds.length,
  };
}

export function agentMetrics(trajectories: readonly Trajectory[]): Metrics {
  const metrics: Metrics = { 'agent/trajectories': trajectories.length };
  if (trajectories.length === 0) return metrics;
  spread(
    metrics,
    'num_turns',
    trajectories.map(({ numTurns }) => numTurns),
  );
  spread(
    metrics,
    'agent/tool_calls_per_trajectory',
    trajectories.map(({ toolCalls }) => toolCalls.length),
  );
  const sampled = trajectories.map(({ responseMask }) => responseMask.reduce((sum, bit) => sum + bit, 0));
  const total = trajectories.map(({ responseIds }) => responseIds.length);
  metrics['state_tokens/total'] = sum(total);
  metrics['state_tokens/coverage'] = sum(total) === 0 ? 0 : sum(sampled) / sum(total);
  spread(
    metrics,
    'tool_call_counts',
    trajectories.map(({ toolCalls }) => toolCalls.length),
  );
  for (const key of TIMED) {
    spread(
      metrics,
      `timing_s/agent_loop/${key}`,
      trajectories.map(({ timing }) => timing[key]),
    );
  }
  Object.assign(metrics, slowest(trajectories));
  for (const { endReason, rewardError, toolCalls } of trajectories) {
    count(metrics, `agent/end_reason/${endReason}`);
    if (rewardError !== undefined) count(metrics, 'agent/reward_errors');
    for (const { status, truncated } of toolCalls) {
      count(metrics, `agent/tool_status/${status}`);
      if (truncated) count(metrics, 'agent/tool_responses_truncated');
    }
  }
  const byAgent = groupBy(trajectories, ({ agentName }) => agentName);
  for (const [name, group] of byAgent) {
    // With one agent these are the numbers of the whole batch.
    if (byAgent.size > 1) {
      metrics[`agent/${name}/trajectories`] = group.length;
      metrics[`agent/${name}/num_turns`] = sum(group.map(({ numTurns }) => numTurns)) / group.length;
      for (const { endReason } of group) count(metrics, `agent/${name}/end_reason/${endReason}`);
    }
    Object.assign(
      metrics,
      meanOfNumbers(
        group.map((trajectory) => trajectory.metrics),
        `agent/${name}`,
      ),
    );
  }
  for (const [name, group] of groupBy(trajectories, ({ dataSource }) => dataSource ?? 'unknown')) {
    Object.assign(metrics, meanOfNumbers(group.map(rewardChannels), `reward_channel/${name}`));
  }
  return metrics;
}

/** Mean of each key over the records that have it. A key that is a full name (`env/...`) keeps it. */
function meanOfNumbers(records: readonly Record<string, number>[], prefix: string): Metrics {
  const values = new Map<string, number[]>();
  for (const record of records) {
    for (const [key, value] of Object.entries(record)) {
      const numbers = values.get(key);
      if (numbers) numbers.push(value);
      else values.set(key, [value]);
    }
  }
  const metrics: Metrics = {};
  for (const [key, numbers] of values) {
    if (key.startsWith('env/')) spread(metrics, key, numbers);
    else metrics[`${prefix}/${key}`] = sum(numbers) / numbers.length;
  }
  return metrics;
}

function spread(metrics: Metrics, name: string, values: readonly number[]): void {
  metrics[`${name}/mean`] = sum(values) / values.length;
  metrics[`${name}/max`] = values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  metrics[`${name}/min`] = values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
}

function count(metrics: Metrics, name: string): void {
  metrics[name] = (metrics[name] ?? 0) + 1;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function groupBy<T>(values: readonly T[], keyOf: (value: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const value of values) {
    const key = keyOf(value);
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return groups;
}
