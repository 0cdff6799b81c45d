// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigError, UserError } from './errors.js';
import { parseOverride } from './override.js';
import { scalar } from './render.js';
import { parseValue } from './value.js';

describe('values of overrides', () => {
  it.each([
    ['1', 1],
    ['-1', -1],
    ['1e-6', 1e-6],
    ['1.', 1],
    ['.5', 0.5],
    ['1_000', 1000],
    ['inf', Number.POSITIVE_INFINITY],
    ['True', true],
    ['FALSE', false],
    ['null', null],
    ['None', 'None'],
    ['', ''],
    ['Qwen/Qwen2.5-0.5B-Instruct', 'Qwen/Qwen2.5-0.5B-Instruct'],
    ['/home/.../train.parquet', '/home/.../train.parquet'],
    ['hello world', 'hello world'],
    ['a=b', 'a=b'],
    ['http://127.0.0.1:8000/retrieve', 'http://127.0.0.1:8000/retrieve'],
    ["'1e-6'", '1e-6'],
    ['"a,b"', 'a,b'],
    ["'it\\'s'", "it's"],
    ['a\\,b', 'a,b'],
    ['[]', []],
    ["['console','wandb']", ['console', 'wandb']],
    ['["console", "wandb"]', ['console', 'wandb']],
    ['[1,[2,a b],{x:1}]', [1, [2, 'a b'], { x: 1 }]],
    ['{}', {}],
    ['{a:1,b: two,"c d":[3]}', { a: 1, b: 'two', 'c d': [3] }],
    ['{url:http://x:1/y}', { url: 'http://x:1/y' }],
    ['${data.seed}', '${data.seed}'],
    ['[${oc.env:A,b},c]', ['${oc.env:A,b}', 'c']],
  ])('reads %j', (source, expected) => {
    expect(parseValue(source)).toEqual(expected);
  });

  it.each(['[1', '{a:1', "'open", '[1 2]extra', '{a 1}', 'a,b', '${open'])('refuses %j and says where', (source) => {
    expect(() => parseValue(source)).toThrow(UserError);
    expect(() => parseValue(source)).toThrow(/at character \d+/);
  });

  it('never fails in another way than UserError', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'[]{}\'",:\\$ a1.e-') }), (source) => {
        try {
          parseValue(source);
        } catch (error) {
          expect(error).toBeInstanceOf(UserError);
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('reads back every printed value', () => {
    const leaf = fc.oneof(
      fc.string().filter((text) => !text.includes('${') && !text.includes('\\')),
      fc.integer(),
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.boolean(),
      fc.constant(null),
    );
    const printable = (value: unknown): string =>
      typeof value === 'string' ? `'${value.replaceAll("'", "\\'")}'` : scalar(value);
    fc.assert(
      fc.property(fc.array(leaf), (items) => {
        expect(parseValue(`[${items.map(printable).join(',')}]`)).toEqual(
          items.map((item) => (Object.is(item, -0) ? 0 : item)),
        );
      }),
    );
  });
});

describe('words of a command line', () => {
  it.each([
    ['a.b=c', 'set'],
    ['+a.b=c', 'add'],
    ['++a.b=c', 'force'],
    ['~a.b', 'remove'],
    ['~a.b=c', 'remove'],
  ])('%s is a %s', (word, operation) => {
    expect(parseOverride(word)).toMatchObject({ operation, key: 'a.b', path: ['a', 'b'] });
  });

  it('keeps the package of a group and the text of a value', () => {
    expect(parseOverride('actor@actor_rollout_ref.actor=dp_actor')).toMatchObject({
      key: 'actor',
      package: 'actor_rollout_ref.actor',
      value: 'dp_actor',
    });
    expect(parseOverride('trainer.experiment_name=007')).toMatchObject({ value: 7, rawValue: '007' });
  });

  it.each(['novalue', '+x', '=1', 'a b=1', 'a..b=1', '-x=1'])('refuses %j', (word) => {
    expect(() => parseOverride(word)).toThrow(UserError);
  });

  it('names the key whose value is malformed', () => {
    expect(() => parseOverride('data.train_files=[a')).toThrow(ConfigError);
    expect(() => parseOverride('data.train_files=[a')).toThrow(/data\.train_files: expected , or \]/);
  });
});
