// biome-ignore-all lint/suspicious/noTemplateCurlyInString: interpolations of the configuration language
import { describe, expect, it } from 'vitest';
import { resolveInterpolations } from './interpolation.js';

const resolve = (tree: Record<string, unknown>, environment: Record<string, string> = {}) =>
  resolveInterpolations(tree, { environment });

describe('interpolation', () => {
  it('keeps the type of a whole value and makes text of a part', () => {
    expect(resolve({ a: { b: 3, c: '${a.b}', d: 'x${a.b}y${.c}' } }).tree).toEqual({ a: { b: 3, c: 3, d: 'x3y3' } });
  });

  it('follows chains, relative names, lists and groups', () => {
    const { tree, problems } = resolve({
      top: 1,
      group: { size: '${..top}', inner: { same: '${..size}', list: ['${.0x}', '${top}'], '0x': 5 }, copy: '${.inner}' },
      first: '${group.inner.list[1]}',
    });
    expect(problems.map(({ path }) => path)).toEqual(['group.inner.list.0', 'group.copy']);
    expect(tree).toMatchObject({ group: { size: 1, inner: { same: 1, list: ['${.0x}', 1] } }, first: 1 });
  });

  it('reads the environment, with and without default', () => {
    const tree = {
      a: '${oc.env:HOME_DIR}/x',
      b: '${oc.env:NOPE,7}',
      c: '${oc.env:NOPE,${d}}',
      d: 'dee',
      e: "${oc.env:NOPE,'a,b'}",
    };
    expect(resolve(tree, { HOME_DIR: '/h' }).tree).toEqual({ a: '/h/x', b: 7, c: 'dee', d: 'dee', e: 'a,b' });
  });

  it('selects with a fallback, decodes text, and leaves escaped braces alone', () => {
    const tree = {
      a: '${oc.select:x.y,5}',
      b: '${oc.select:a}',
      c: '${oc.select:nothing}',
      d: '${oc.decode:${e}}',
      e: '12',
      f: '\\${e}',
    };
    expect(resolve(tree).tree).toEqual({ a: 5, b: 5, c: null, d: 12, e: '12', f: '${e}' });
  });

  it('reports every failure with its key: cycles, unknown keys, unset variables, unknown resolvers, open braces', () => {
    const { problems } = resolve({
      a: '${b}',
      b: '${a}',
      c: '${nope.x}',
      d: '${oc.env:UNSET}',
      e: '${now:%Y}',
      f: '${x',
      g: 'fine',
    });
    expect(problems.map(({ path, message }) => `${path}: ${message}`)).toEqual([
      expect.stringMatching(/^a: refers to itself: a -> b -> a/),
      expect.stringMatching(/^b: refers to itself: b -> a -> b/),
      expect.stringMatching(/^c: there is no key nope\.x/),
      expect.stringMatching(/^d: environment variable UNSET is not set/),
      expect.stringMatching(/^e: there is no resolver now/),
      expect.stringMatching(/^f: missing }/),
    ]);
  });
});
