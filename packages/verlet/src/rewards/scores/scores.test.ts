import { describe, expect, test } from 'vitest';
import { RewardError, type RewardInput } from '../types.js';
import {
  cosineLengthReward,
  defaultComputeScore,
  extractGsm8k,
  gsm8k,
  jsonFormat,
  knownDataSources,
  math,
  mathDapo,
  overlongPenalty,
  primeMath,
  regexFormat,
  registerScore,
  repetitionPenalty,
  rlla,
  searchQaFormat,
  searchQaSubMatch,
  tagFormat,
} from './index.js';

const sample = (solution_str: string, ground_truth: unknown = '', extra: Partial<RewardInput> = {}): RewardInput => ({
  data_source: 'test',
  solution_str,
  ground_truth,
  extra_info: {},
  ...extra,
});

describe('registry', () => {
  test.each([
    ['openai/gsm8k', '#### 5', '5', 1],
    ['DigitalLearningGmbH/MATH-lighteval', '\\boxed{\\frac12}', '\\frac{1}{2}', 1],
    ['aime_2025', 'Answer: 7', '7', { score: 1, acc: true, pred: '7' }],
    ['numina_olympiads', '\\boxed{0.5}', '\\frac{1}{2}', { score: 1, acc: true, pred: '0.5' }],
    ['searchR1_nq', '<answer>The Beatles</answer>', { target: ['beatles'] }, 1],
  ])('%s', async (data_source, solution, truth, expected) => {
    expect(await defaultComputeScore(sample(solution, truth, { data_source }), {})).toEqual(expected);
  });

  test('an unknown source is an error that lists the known ones', () => {
    expect(() => defaultComputeScore(sample('', '', { data_source: 'openai/gsm9k' }), {})).toThrow(RewardError);
    expect(() => defaultComputeScore(sample('', '', { data_source: 'openai/gsm9k' }), {})).toThrow(
      /gsm9k.*openai\/gsm8k.*searchR1_nq/,
    );
    expect(knownDataSources()).toContain('codecontests');
  });

  test('a user adds a source in one line', async () => {
    registerScore(
      'my/source',
      (input, options: { bonus?: number }) => input.solution_str.length + (options.bonus ?? 0),
    );
    expect(await defaultComputeScore(sample('abc', '', { data_source: 'my/source' }), { bonus: 1 })).toBe(4);
  });
});

describe('gsm8k', () => {
  test('commas go in strict mode, the format earns its score, a number as ground truth works', () => {
    expect(gsm8k(sample('#### 1,234', '1234'))).toBe(1);
    expect(gsm8k(sample('#### 12', '13'), { format_score: 0.1 })).toBe(0.1);
    expect(gsm8k(sample('so 12', '12'), { format_score: 0.1 })).toBe(0);
    expect(gsm8k(sample('#### 12', 12))).toBe(1);
  });

  test('a full stop is not a number', () => {
    expect(extractGsm8k('I do not know.', 'flexible')).toBeUndefined();
  });

  test('the window counts characters, not UTF-16 units', () => {
    expect(extractGsm8k(`#### 7${'😀'.repeat(294)}`)).toBe('7');
    expect(extractGsm8k(`#### 7${'😀'.repeat(300)}`)).toBeUndefined();
  });
});

test('MATH: the last box wins whatever its form, and broken LaTeX is compared as written', () => {
  expect(math(sample('\\boxed 7$ and then \\boxed{8}', '8'))).toBe(1);
  expect(math(sample('\\boxed{1', '1'))).toBe(0);
  expect(math(sample('\\boxed{\\frac}', '\\frac'))).toBe(1);
  expect(math(sample('\\boxed{k = 5}', '5'))).toBe(1);
});

test('math_dapo: the Answer line beats the box; the box is read exactly', () => {
  expect(mathDapo(sample('\\boxed{1} Answer: $\\frac12$', '\\frac{1}{2}')).score).toBe(1);
  expect(mathDapo(sample('\\boxed{ 34 }', '34'))).toEqual({ score: -1, acc: false, pred: ' 34 ' });
  expect(mathDapo(sample(`\\boxed{34}${' '.repeat(120)}`, '34')).pred).toBe('[INVALID]');
});

test('prime_math accepts any of several truths and a truth with a box', () => {
  expect(primeMath(sample('\\boxed{(x+1)^2}', 'so \\boxed{x^2+2x+1}')).score).toBe(1);
  expect(primeMath(sample('\\boxed{3}', ['2', '3'])).score).toBe(1);
  expect(primeMath(sample('3', '3')).score).toBe(0);
});

test('search QA: a target of articles only is in no answer; the form is graded beside the answer', () => {
  expect(searchQaSubMatch(sample('<answer>anything</answer>', { target: 'The' }))).toBe(0);
  expect(searchQaSubMatch(sample('<answer>in New York City</answer>', { target: ['New York'] }))).toBe(1);
  const options = { structure_format_score: 0.2, final_format_score: 0.1, retrieval_score: 0.1 };
  expect(searchQaFormat(sample('<think>t</think><answer>NYC</answer>', { target: ['NYC'] }), options).score).toBe(1);
  expect(searchQaFormat(sample('<answer>LA</answer>', { target: ['NYC'] }), options).score).toBeCloseTo(0.1);
  expect(searchQaFormat(sample('nothing', { target: ['NYC'] }), options).score).toBe(0);
});

test('tool calls: exact, partly right, unreadable', () => {
  const truth = '<think>a</think>\n<tool_call>\n{"name":"f","parameters":{"a":1}}\n</tool_call>';
  expect(rlla(sample(truth, truth)).score).toBe(4);
  expect(rlla(sample('<tool_call>\n{"name":"f","parameters":{"a":2}}\n</tool_call>', truth)).score).toBeCloseTo(
    -3 + (6 * 2) / 3,
  );
  expect(rlla(sample('<tool_call>oops</tool_call>', truth)).score).toBe(-3);
});

test('formats', () => {
  expect(tagFormat(sample('<think>a</think>\n<answer>b</answer>'))).toBe(1);
  expect(tagFormat(sample('<think>a</think> so <answer>b</answer>'))).toBe(0);
  expect(tagFormat(sample('<think>a<think></think><answer>b</answer>'))).toBe(0);
  expect(regexFormat(sample('x=1'), { pattern: '^x=\\d$' })).toBe(1);
  expect(() => regexFormat(sample('x'), {})).toThrow(/pattern/);
  const schema = { type: 'object', required: ['city'], properties: { city: { type: 'string' } } };
  expect(jsonFormat(sample('Here:\n```json\n{"city": "Rome"}\n```'), { schema })).toBe(1);
  expect(jsonFormat(sample('{"city": 3}'), { schema })).toBe(0);
  expect(jsonFormat(sample('{"city"'), { schema })).toBe(0);
});

test('length and repetition', () => {
  expect([80, 90, 95, 100, 110].map((length) => overlongPenalty(length, 100, 10, 2) || 0)).toEqual([0, 0, -1, -2, -4]);
  expect(cosineLengthReward(true, 0, 100)).toBeCloseTo(1);
  expect(cosineLengthReward(true, 100, 100)).toBeCloseTo(0.5);
  expect(cosineLengthReward(false, 0, 100)).toBeLessThan(cosineLengthReward(false, 100, 100));
  expect(repetitionPenalty('all words here are different from each other')).toBe(0);
  expect(repetitionPenalty('go on '.repeat(50))).toBeLessThan(-0.9);
  expect(repetitionPenalty([1, 2, 3, 1, 2, 3], 3)).toBeCloseTo(-0.25);
});
