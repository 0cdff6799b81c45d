import { expect, it } from 'vitest';
import { mergeRounds } from './rounds.js';

it('counts add up, extremes stay extreme, means weigh rollouts and shares of tokens weigh tokens', () => {
  const first = {
    'agent/trajectories': 2,
    'agent/end_reason/stop': 2,
    'agent/tool_calls_per_trajectory/mean': 1,
    'agent/tool_calls_per_trajectory/max': 4,
    'agent/tool_calls_per_trajectory/min': 1,
    'reward/error_count': 1,
    'reward/error_rate': 0.5,
    'state_tokens/total': 10,
    'state_tokens/coverage': 1,
    'reward/format': 0.25,
    'timing_s/agent_loop/slowest/tool_calls': 9,
    'timing_s/agent_loop/slowest/response_length': 5,
  };
  const second = {
    'agent/trajectories': 6,
    'agent/end_reason/response_length': 6,
    'agent/tool_calls_per_trajectory/mean': 2,
    'agent/tool_calls_per_trajectory/max': 3,
    'agent/tool_calls_per_trajectory/min': 0,
    'reward/error_count': 0,
    'reward/error_rate': 0,
    'state_tokens/total': 30,
    'state_tokens/coverage': 0.5,
    'timing_s/agent_loop/slowest/tool_calls': 1,
    'timing_s/agent_loop/slowest/response_length': 50,
  };
  expect(
    mergeRounds([
      { metrics: first, rollouts: 2 },
      { metrics: second, rollouts: 6 },
    ]),
  ).toEqual({
    'agent/trajectories': 8,
    'agent/end_reason/stop': 2,
    'agent/end_reason/response_length': 6,
    'agent/tool_calls_per_trajectory/mean': 1.75,
    'agent/tool_calls_per_trajectory/max': 4,
    'agent/tool_calls_per_trajectory/min': 0,
    'reward/error_count': 1,
    'reward/error_rate': 0.125,
    'state_tokens/total': 40,
    'state_tokens/coverage': 0.625,
    'reward/format': 0.25,
    'timing_s/agent_loop/slowest/tool_calls': 9,
    'timing_s/agent_loop/slowest/response_length': 5,
  });
});

it('one round is what it is', () => {
  expect(mergeRounds([{ metrics: { 'reward/x': 3 }, rollouts: 0 }])).toEqual({ 'reward/x': 3 });
});
