import { describe, expect, it } from 'vitest';
import vectors from './fixtures/vectors.json' with { type: 'json' };
import { truncateToolResponse } from './tools/truncate.js';
import { padTrajectory, TrajectoryRecorder } from './trajectory.js';
import type { TruncateSide } from './types.js';

const vector = <Input, Expected>(area: string, name: string) =>
  vectors.find((candidate) => candidate.area === area && candidate.name === name) as unknown as {
    input: Input;
    expected: Expected;
  };

const recorder = () => new TrajectoryRecorder({ id: 't', rowIndex: 0, sampleIndex: 0, agentName: 'test' });
const sample = (record: TrajectoryRecorder, ids: number[]) =>
  record.sampled(
    ids,
    ids.map(() => -1),
    ids.map(() => 5),
  );

describe('reference vectors', () => {
  it('masks and pads like verl', () => {
    type Input = {
      prompt_ids: number[];
      segments: { kind: string; ids: number[] }[];
      prompt_length: number;
      response_length: number;
      pad_id: number;
    };
    const { input, expected } = vector<Input, Record<string, unknown>>('agent_loop', 'response_mask_assembly');
    const record = recorder();
    record.promptIds = input.prompt_ids;
    for (const { kind, ids } of input.segments) {
      if (kind === 'llm') sample(record, ids);
      else {
        record.injected(ids);
        record.userTurns++;
      }
    }
    const trajectory = record.build([], 'stop');
    const { rollout_log_probs, ...padded } = padTrajectory(trajectory, {
      promptLength: input.prompt_length,
      responseLength: input.response_length,
      padId: input.pad_id,
    });
    expect({ ...padded, num_turns: trajectory.numTurns }).toEqual(expected);
    expect(rollout_log_probs).toEqual([-1, -1, 0, 0, 0, -1, 0, 0]);
    expect(trajectory.weightVersions).toEqual([5, 5, -1, -1, -1, 5]);
  });

  it('joins Search-R1 turns and observations with its information mask', () => {
    type Input = { pad_id: number; responses: number[][]; cur_responses: number[][]; next_obs_ids: number[][] };
    type Expected = { responses: number[][]; responses_with_info_mask: number[][] };
    const { input, expected } = vector<Input, Expected>('search_r1', 'right_side_with_info_mask');
    const unpadded = (ids: number[]) => ids.filter((id) => id !== input.pad_id);
    input.responses.forEach((before, index) => {
      const record = recorder();
      sample(record, unpadded(before));
      sample(record, unpadded(input.cur_responses[index]!));
      record.injected(unpadded(input.next_obs_ids[index]!));
      const { responseIds, responseMask } = record.build([], 'stop');
      expect(responseIds).toEqual(unpadded(expected.responses[index]!));
      expect(responseIds.filter((_, position) => responseMask[position])).toEqual(
        unpadded(expected.responses_with_info_mask[index]!),
      );
    });
  });

  it('cuts tool responses on the named side', () => {
    type Input = { text: string; max_tool_response_length: number; sides: TruncateSide[] };
    const { input, expected } = vector<Input, Record<string, string>>('agent_loop', 'tool_response_truncation');
    for (const side of input.sides) {
      expect(truncateToolResponse(input.text, input.max_tool_response_length, side)).toEqual({
        text: expected[side],
        truncated: true,
      });
    }
  });
});

it('a cut never leaves half a character', () => {
  for (const side of ['left', 'right', 'middle'] as const) {
    const { text } = truncateToolResponse('👋👋👋👋', 3, side);
    expect(Buffer.from(text).toString()).toBe(text);
  }
});

it('refuses an engine that answers with a log-prob too few', () => {
  expect(() => recorder().sampled([1, 2], [-1], [0, 0])).toThrow(/2 tokens with 1 log-probs and 2 weight versions/);
});

it('says which length a trajectory does not fit', () => {
  const record = recorder();
  sample(record, [1, 2, 3]);
  expect(() => padTrajectory(record.build([], 'stop'), { promptLength: 1, responseLength: 2, padId: 0 })).toThrow(
    /0 \+ 3 tokens does not fit into 1 \+ 2/,
  );
});
