import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { RewardInput } from '../types.js';
import { easyR1Math, easyR1R1v } from './easyr1.js';
import { hasThinkAndBox, weighFormat } from './geo3k.js';
import { extractGsm8k, gsm8k } from './gsm8k.js';
import { softOverlongPunishment } from './length.js';
import { math } from './math.js';
import { mathDapo } from './math-dapo.js';
import { type ToolCall, toolCallReward } from './rlla.js';
import { extractAnswerFromTranscript, isExactMatch, normalizeAnswer, searchQaExactMatch } from './search-qa.js';
import { checkSequence, searchQaFormat } from './search-qa-format.js';

interface Vector {
  area: string;
  name: string;
  // biome-ignore lint/suspicious/noExplicitAny: each area has its own shape
  input: any;
  // biome-ignore lint/suspicious/noExplicitAny: each area has its own shape
  expected: any;
}

const vectors = JSON.parse(
  readFileSync(new URL('../../../test/fixtures/vectors-rewards.json', import.meta.url), 'utf8'),
) as Vector[];

const sample = (solution_str: string, ground_truth: unknown): RewardInput => ({
  data_source: 'test',
  solution_str,
  ground_truth,
  extra_info: {},
});

/** Long texts are written as {prefix, repeat, times, suffix}. */
const text = (value: string | { prefix?: string; repeat: string; times: number; suffix?: string }): string =>
  typeof value === 'string' ? value : `${value.prefix ?? ''}${value.repeat.repeat(value.times)}${value.suffix ?? ''}`;

const run: Record<string, (vector: Vector) => void> = {
  'reward/gsm8k': ({ input, expected }) => {
    expect(extractGsm8k(text(input.solution), input.method) ?? null).toEqual(expected.extracted);
    const options = { method: input.method, format_score: input.format_score };
    expect(gsm8k(sample(text(input.solution), input.ground_truth), options)).toBeCloseTo(expected.score, 6);
  },
  'reward/math': ({ input, expected }) => {
    expect(math(sample(text(input.solution), input.ground_truth))).toBeCloseTo(expected, 6);
  },
  'reward/math_dapo': ({ input, expected }) => {
    const options = { strict_box_verify: input.strict_box_verify };
    expect(mathDapo(sample(text(input.solution), input.ground_truth), options)).toEqual(expected);
  },
  'reward/geo3k': ({ input, expected }) => {
    const formats = (input.cases as string[]).map((one) => (hasThinkAndBox(one) ? 1 : 0));
    expect(formats).toEqual(expected.format);
    formats.forEach((format, index) => {
      // The vector states both outcomes of a grader that it did not run.
      expect(weighFormat(1, format, 0.1)).toBeCloseTo(expected.score_if_correct[index], 6);
      expect(weighFormat(0, format, 0.1)).toBeCloseTo(expected.score_if_wrong[index], 6);
    });
  },
  'reward/qa_em': ({ input, expected }) => {
    if (input.inputs) expect(input.inputs.map(normalizeAnswer)).toEqual(expected);
    else if (input.prompt_and_response !== undefined) {
      const answer = extractAnswerFromTranscript(text(input.prompt_and_response));
      expect(answer ?? null).toEqual(expected.extracted);
      const score = answer !== undefined && isExactMatch(answer, [input.target].flat()) ? 1 : 0;
      expect(score).toBeCloseTo(expected.score, 6);
    } else {
      const score = searchQaExactMatch(sample(text(input.solution), { target: input.target }));
      expect(score).toBeCloseTo(expected, 6);
    }
  },
  'reward/qa_em_format': ({ input, expected }) => {
    const { text_after_assistant_marker: response, target, ...options } = input;
    expect(checkSequence(response)).toEqual({ valid: expected.valid, reason: expected.reason });
    expect(searchQaFormat(sample(response, { target }), options).score).toBeCloseTo(expected.score, 6);
  },
  'reward/rlla': ({ input, expected }) => {
    expect(toolCallReward(input.gt_tools as ToolCall[], input.pd_tools, input.max, input.min)).toBeCloseTo(expected, 6);
  },
  'reward/overlong': ({ input, expected }) => {
    const { lengths, max_response_length: longest, overlong_buffer_length: buffer } = input;
    const penalties = (lengths as number[]).map((length) => softOverlongPunishment(length, longest, buffer));
    penalties.forEach((penalty, index) => {
      expect(penalty).toBeCloseTo(expected[index], 6);
    });
  },
  'reward/easyr1': ({ name, input, expected }) => {
    const score = name.startsWith('math') ? easyR1Math : easyR1R1v;
    const inputs = input.reward_inputs as { response: string; ground_truth: string }[];
    inputs.forEach(({ response, ground_truth }, index) => {
      const result = score(sample(response, ground_truth), { format_weight: input.format_weight });
      for (const key of Object.keys(expected[index])) expect(result[key]).toBeCloseTo(expected[index][key], 6);
    });
  },
};

describe('vectors from the peers', () => {
  for (const vector of vectors) {
    test(`${vector.area} ${vector.name}`, () => {
      const check = run[vector.area];
      if (!check) throw new Error(`no check for area ${vector.area}`);
      check(vector);
    });
  }
});
