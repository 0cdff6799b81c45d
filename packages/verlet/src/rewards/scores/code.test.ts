import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSandbox, type Sandbox } from '../sandbox/index.js';
import type { RewardInput } from '../types.js';
import { extractCode, parseCodeTests, primeCode } from './code.js';
import { isSameOutput, isSameValue } from './code-comparison.js';

let sandbox: Sandbox;
beforeAll(async () => {
  sandbox = await createSandbox({ size: 2, limits: { timeoutMs: 20_000 } });
});
afterAll(() => sandbox.close());

const score = (solution_str: string, ground_truth: unknown, options = {}) =>
  primeCode({ data_source: 'apps', solution_str, ground_truth, extra_info: {} } as RewardInput, {
    sandbox,
    ...options,
  });

describe('prime_code', () => {
  const doubling = {
    inputs: Array.from({ length: 10 }, (_, n) => `${n}\n`),
    outputs: Array.from({ length: 10 }, (_, n) => `${2 * n}\n`),
  };

  test('all tests pass: 1; one of ten fails: 0.9, or 0 without partial credit', async () => {
    const right = 'Here:\n```python\nprint(int(input()) * 2)\n```\nDone.';
    const almost = '```python\nn = int(input())\nprint(n * 2 if n != 7 else 0)\n```';
    expect(await score(right, JSON.stringify(doubling))).toMatchObject({ score: 1, passed: 10, failure: '' });
    expect(await score(almost, doubling)).toMatchObject({ score: 0.9, passed: 9, failure: 'wrong answer' });
    expect(await score(almost, doubling, { continuous: false })).toMatchObject({ score: 0 });
  });

  test('partial credit looks at the first ten tests only, as verl does', async () => {
    const eleven = { inputs: [...doubling.inputs, '10\n'], outputs: [...doubling.outputs, '20\n'] };
    const code = '```python\nn = int(input())\nprint(n * 2 if n < 10 else 0)\n```';
    expect((await score(code, eleven)).score).toBe(1);
    expect(await score(code, eleven, { continuous: false })).toMatchObject({ score: 0, passed: 10, tests: 11 });
  });

  test('function calls, methods of Solution, exact big integers', async () => {
    const tests = '{"fn_name": "square", "inputs": [[3], [12345678901]], "outputs": [9, 152415787526596567801]}';
    expect((await score('```python\ndef square(n): return n * n\n```', tests)).score).toBe(1);
    expect((await score('```python\nclass Solution:\n  def square(self, n): return n * n\n```', tests)).score).toBe(1);
    expect((await score('```python\ndef square(n): return int(float(n) ** 2)\n```', tests)).score).toBe(0.5);
    expect(
      (await score('```js\nconst square = (n) => n * n\n```', { ...JSON.parse(tests), inputs: [[3]], outputs: [9] }))
        .score,
    ).toBe(1);
  });

  test('assert tests see functions, classes, exceptions and changed arguments', async () => {
    const code = `\`\`\`python
import math
def insert(items, item):
  items.append(item)
def root(n):
  if n < 0: raise ValueError('negative')
  return math.sqrt(n)
class Counter:
  def __init__(self): self.n = 0
  def up(self):
    self.n += 1
    return self
\`\`\``;
    const asserts = `items = [1]
insert(items, 2)
assert items == [1, 2]
assert math.isclose(root(2) ** 2, 2)
try:
  root(-1)
  assert False
except ValueError: pass
assert Counter().up().up().n == 2`;
    expect((await score(code, { asserts: [asserts] })).score).toBe(1);
    expect((await score(code, { asserts: [asserts, 'assert root(4) == 3'] })).score).toBe(0.5);
  });

  test('bad test cases are an error, empty code is 0', async () => {
    await expect(score('x', 'nonsense')).rejects.toThrow(/ground_truth/);
    await expect(score('x', { inputs: ['1'], outputs: [] })).rejects.toThrow(/1 inputs but 0 outputs/);
    expect(await score('```python\n```', doubling)).toMatchObject({ score: 0, failure: 'no code' });
  });
});

test('the last block of a known language is the solution', () => {
  expect(extractCode('```python\na\n```\n```py\nb\n```\n```text\nout\n```')).toEqual({
    code: 'b\n',
    language: 'python',
  });
  expect(extractCode('```\nc\n```').code).toBe('c\n');
  expect(extractCode('print(1)')).toEqual({ code: 'print(1)' });
  expect(extractCode('```python\nunfinished')).toEqual({ code: 'unfinished', language: 'python' });
  expect(parseCodeTests('assert f(1) == 2').asserts).toEqual(['assert f(1) == 2']);
});

test('outputs compare by tokens; integers exactly, decimals up to rounding, order counts', () => {
  expect(isSameOutput('1 2  \n3\n\n', '1 2\n3')).toBe(true);
  expect(isSameOutput('0.3333333', '0.33333333333')).toBe(true);
  expect(isSameOutput('10000000000000001', '10000000000000000')).toBe(false);
  expect(isSameOutput('2\n1', '1\n2')).toBe(false);
  expect(isSameOutput('', '0')).toBe(false);
  expect(isSameValue([1, [2, 3]], [1, [2, 3]])).toBe(true);
  expect(isSameValue(4, [4])).toBe(true);
  expect(isSameValue(new Map([[1, 'a']]), { '1': 'a' })).toBe(true);
  expect(isSameValue(2n ** 60n, 2n ** 60n + 1n)).toBe(false);
  expect(isSameValue(null, 0)).toBe(false);
});
