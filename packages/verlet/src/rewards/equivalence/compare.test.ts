import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compare, isEquivalent } from './index.js';

interface Pair {
  topic: string;
  prediction: string;
  reference: string;
  equal: boolean;
}

const readPairs = (name: string) =>
  JSON.parse(readFileSync(new URL(`../../../test/fixtures/${name}.json`, import.meta.url), 'utf8')) as Pair[];

const pairs = ['equivalence-pairs', 'equivalence-pairs-held-out', 'equivalence-pairs-fresh'].flatMap(readPairs);

describe('labelled pairs', () => {
  test('there are enough of them, of both kinds', () => {
    expect(pairs.length).toBeGreaterThan(400);
    expect(pairs.filter((pair) => !pair.equal).length).toBeGreaterThan(150);
  });

  for (const topic of new Set(pairs.map((pair) => pair.topic))) {
    test(topic, () => {
      for (const { prediction, reference, equal } of pairs.filter((pair) => pair.topic === topic)) {
        expect({ prediction, reference, equal: isEquivalent(prediction, reference) }).toEqual({
          prediction,
          reference,
          equal,
        });
        expect({ prediction: reference, reference: prediction, equal: isEquivalent(reference, prediction) }).toEqual({
          prediction: reference,
          reference: prediction,
          equal,
        });
      }
    });
  }
});

describe('numbers are exact', () => {
  const big = fc.bigInt({ min: -(10n ** 60n), max: 10n ** 60n });

  test('an integer of any length equals itself and not its neighbour', () => {
    fc.assert(
      fc.property(big, (n) => {
        expect(isEquivalent(`${n}`, `\\frac{${n * 6n}}{6}`)).toBe(true);
        expect(isEquivalent(`${n}`, `${n + 1n}`)).toBe(false);
        expect(isEquivalent(`${n}\\sqrt{2}`, `${n + 1n}\\sqrt{2}`)).toBe(false);
      }),
    );
  });

  test('fractions compare by cross multiplication', () => {
    const part = fc.bigInt({ min: 1n, max: 10n ** 25n });
    fc.assert(
      fc.property(part, part, part, part, (a, b, c, d) => {
        expect(isEquivalent(`\\frac{${a}}{${b}}`, `${c}/${d}`)).toBe(a * d === b * c);
      }),
    );
  });

  test('a truncated expansion of an irrational number is not the number', () => {
    const digits = '3.14159265358979323846264338327950288419716939937510582097494459230781640628620899';
    for (let length = 3; length < digits.length; length++)
      expect(isEquivalent(digits.slice(0, length), '\\pi')).toBe(false);
  });

  test('polynomials: expanded equals factored, and one changed coefficient is seen', () => {
    const root = fc.integer({ min: -1_000_000_000, max: 1_000_000_000 });
    fc.assert(
      fc.property(root, root, (a, b) => {
        const expanded = (shift: bigint) => `x^2+(${BigInt(-a) - BigInt(b)})x+(${BigInt(a) * BigInt(b) + shift})`;
        expect(isEquivalent(`(x-(${a}))(x-(${b}))`, expanded(0n))).toBe(true);
        expect(isEquivalent(`(x-(${a}))(x-(${b}))`, expanded(1n))).toBe(false);
      }),
    );
  });
});

describe('whatever the model writes', () => {
  const piece = fc.constantFrom(
    ...'\\frac \\sqrt { } ( ) [ ] ^ _ ! | 9 12 x y \\pi e i + - * / = , \\cup \\pm \\log \\sin \\le < \\text{ \\{ \\} \\begin{pmatrix} \\end{pmatrix} & \\\\ % . : \\infty \\binom \\overline{3} $ é'.split(
      ' ',
    ),
    ' ',
  );

  test('a comparison ends, is symmetric, and does not throw', () => {
    const text = fc.array(piece, { maxLength: 25 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(isEquivalent(a, b)).toBe(isEquivalent(b, a));
      }),
      { numRuns: 2_000 },
    );
  });

  test('an answer always equals itself', () => {
    const text = fc.array(piece, { minLength: 1, maxLength: 15 }).map((pieces) => pieces.join('').trim());
    fc.assert(
      fc.property(text, (a) => {
        fc.pre(a.length > 0);
        expect(isEquivalent(a, a)).toBe(true);
      }),
    );
  });

  test('towers, factorials and deep nesting are given up, with a reason', () => {
    for (const bomb of [
      '9^{9^{9^{9}}}',
      '(10^{400})!',
      '2^{(10^{9})}\\sqrt{2}',
      `${'\\sqrt{'.repeat(200)}2${'}'.repeat(200)}`,
    ]) {
      const verdict = compare(bomb, '7');
      expect(verdict.equal).toBe(false);
    }
    expect(compare(`${'x+'.repeat(5_000)}x`, 'x')).toMatchObject({ equal: false, evidence: 'undecided' });
    expect(compare('x^2+\\sin x+\\cos x', 'x^2+\\cos x+\\sin x', { maxSteps: 20 })).toMatchObject({
      evidence: 'undecided',
    });
  });
});
