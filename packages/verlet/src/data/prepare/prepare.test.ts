import { describe, expect, it } from 'vitest';
import { boxedAnswer, hashAnswer, PREPARERS, type Preparer } from './index.js';

const where = { file: 'f.jsonl', row: 3 };
const prepare = (name: string, row: Record<string, unknown>, options = {}) =>
  (PREPARERS[name] as Preparer).prepare(row, 3, where, options);

describe('answers', () => {
  it.each([
    ['so 3+4=7\n#### 7', '7'],
    ['#### 1\n#### 1,234.50', '1234.50'],
    ['#### -$3 ', '-3'],
    ['no mark', null],
  ])('hashAnswer(%j)', (solution, answer) => expect(hashAnswer(solution)).toBe(answer));

  it.each([
    ['thus $\\boxed{\\frac{1}{2}}$.', '\\frac{1}{2}'],
    ['\\boxed{1} then \\boxed{ x^{2^{3}} }', 'x^{2^{3}}'],
    ['$\\boxed 5$', '5'],
    ['\\fbox{a}', 'a'],
    ['\\boxed{\\{1, 2\\}}', '\\{1, 2\\}'],
    ['\\boxed{never closed', null],
    ['nothing', null],
  ])('boxedAnswer(%j)', (solution, answer) => expect(boxedAnswer(solution)).toBe(answer));
});

describe('preparers', () => {
  it('gsm8k', () => {
    const row = prepare('gsm8k', { question: 'How many?', answer: 'Two.\n#### 2' }, { split: 'test' });
    expect(row.data_source).toBe('openai/gsm8k');
    expect(row.prompt).toEqual([{ role: 'user', content: expect.stringMatching(/^How many\? .*"####"/) }]);
    expect(row.reward_model).toEqual({ style: 'rule', ground_truth: '2' });
    expect(row.extra_info).toMatchObject({ split: 'test', index: 3, interaction_kwargs: { ground_truth: '2' } });
    expect(() => prepare('gsm8k', { question: 'Q', answer: '2' })).toThrow(
      'f.jsonl, row 3, column "answer": has no final',
    );
    expect(() => prepare('gsm8k', { text: 'Q' })).toThrow('column "question": is missing; the row has text');
  });

  it('math', () => {
    const row = prepare('math', { problem: 'P', solution: 'S \\boxed{42}', level: 'Level 5', type: 'Algebra' });
    expect(row.reward_model.ground_truth).toBe('42');
    expect(row.extra_info).toMatchObject({ level: 'Level 5', type: 'Algebra' });
    expect(row.prompt[0]?.content).toContain('\\boxed{}');
  });

  it('aime', () => {
    expect(prepare('aime', { Problem: 'P', Answer: 33, ID: '2024-I-1' }).reward_model.ground_truth).toBe('33');
    expect(prepare('aime', { problem: 'P', answer: '073' }).reward_model.ground_truth).toBe('73');
    expect(() => prepare('aime', { problem: 'P', answer: '1/2' })).toThrow('an integer from 0 to 999, got "1/2"');
  });

  it('search_qa', () => {
    const nq = prepare('search_qa', { id: 'train_0', question: 'who wrote it', golden_answers: ['A', 'B'] });
    expect(nq.reward_model.ground_truth).toEqual({ target: ['A', 'B'] });
    expect(nq.prompt[0]?.content).toMatch(/<search>.*<information>.*<answer>.*Question: who wrote it\?$/s);
    const hotpot = prepare(
      'search_qa',
      { _id: 'x', question: 'Which?', answer: 'C' },
      { dataSource: 'searchR1_hotpotqa' },
    );
    expect([hotpot.data_source, hotpot.reward_model.ground_truth]).toEqual(['searchR1_hotpotqa', { target: ['C'] }]);
    expect(() => prepare('search_qa', { question: 'Q' })).toThrow('column "golden_answers": has no answer');
  });
});
