import type { ConfigProblem } from './errors.js';
import { getPath, isTree, type Tree } from './tree.js';
import { parseValue, primitive } from './value.js';

/**
 * OmegaConf interpolation: `${a.b}`, `${.sibling}`, `${..uncle}`, `${oc.env:NAME,default}`, `${oc.select:key,default}`,
 * `${oc.decode:text}`, nested, whole-value (keeps its type) or inside text. `\${` is a literal dollar brace.
 */
export interface InterpolationOptions {
  environment: Record<string, string | undefined>;
  /** Real keys near a path that does not exist, for messages. */
  suggest?: (path: string[]) => string[];
}

export class InterpolationFailure extends Error {}

export function resolveInterpolations(
  tree: Tree,
  options: InterpolationOptions,
): { tree: Tree; problems: ConfigProblem[] } {
  const resolver = new Resolver(tree, options);
  const resolved = resolver.resolveTree(tree, []) as Tree;
  return { tree: resolved, problems: resolver.problems };
}

export const hasInterpolation = (value: unknown): boolean => typeof value === 'string' && /(?<!\\)\$\{/.test(value);

class Resolver {
  readonly problems: ConfigProblem[] = [];
  private readonly resolving = new Set<string>();
  private readonly tree: Tree;
  private readonly options: InterpolationOptions;

  constructor(tree: Tree, options: InterpolationOptions) {
    this.tree = tree;
    this.options = options;
  }

  resolveTree(value: unknown, path: string[]): unknown {
    if (Array.isArray(value)) return value.map((item, index) => this.resolveTree(item, [...path, String(index)]));
    if (isTree(value)) {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, this.resolveTree(item, [...path, key])]),
      );
    }
    if (typeof value !== 'string') return value;
    try {
      return this.resolveAt(path, value);
    } catch (error) {
      if (!(error instanceof InterpolationFailure)) throw error;
      this.problems.push({ path: path.join('.'), message: `${error.message}, in ${JSON.stringify(value)}` });
      return value;
    }
  }

  private resolveAt(path: string[], text: string): unknown {
    if (!hasInterpolation(text)) return text.replaceAll('\\${', '${');
    const key = path.join('.');
    if (this.resolving.has(key))
      throw new InterpolationFailure(`refers to itself: ${[...this.resolving, key].join(' -> ')}`);
    this.resolving.add(key);
    try {
      return this.resolveText(text, path);
    } finally {
      this.resolving.delete(key);
    }
  }

  private resolveText(text: string, path: string[]): unknown {
    const whole = /^\$\{/.test(text) && closingBrace(text, 0) === text.length - 1;
    if (whole) return this.evaluate(text.slice(2, -1).trim(), path);
    let result = '';
    for (let position = 0; position < text.length; ) {
      if (text.startsWith('\\${', position)) {
        result += '${';
        position += 3;
      } else if (text.startsWith('${', position)) {
        const end = closingBrace(text, position);
        const value = this.evaluate(text.slice(position + 2, end).trim(), path);
        result += typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value);
        position = end + 1;
      } else result += text[position++];
    }
    return result;
  }

  private evaluate(expression: string, path: string[]): unknown {
    const call = /^([A-Za-z_][\w.]*):(.*)$/s.exec(expression);
    if (call === null) return this.lookUp(String(this.resolveText(expression, path)), path);
    const [, name, source] = call as unknown as [string, string, string];
    const parts = splitArguments(source);
    const first = String(parts[0] === undefined ? '' : this.resolveText(parts[0].trim(), path));
    const fallback = parts.length > 1 ? parts.slice(1).join(',').trim() : undefined;
    switch (name) {
      case 'oc.env': {
        const value = this.options.environment[first];
        if (value !== undefined) return value;
        if (fallback !== undefined) return this.argument(fallback, path);
        throw new InterpolationFailure(`environment variable ${first} is not set`);
      }
      case 'oc.select': {
        const target = this.absolute(first, path);
        const value = getPath(this.tree, target);
        if (value !== undefined && value !== '???') return this.resolveNested(value, target);
        return fallback === undefined ? null : this.argument(fallback, path);
      }
      case 'oc.decode':
        return primitive(first);
      case 'verlet.all_null':
        return parts.every((part) => this.lookUp(part.trim(), path) === null);
      default:
        throw new InterpolationFailure(`there is no resolver ${name}; there are oc.env, oc.select, oc.decode`);
    }
  }

  private argument(source: string, path: string[]): unknown {
    return hasInterpolation(source) ? this.resolveText(source, path) : parseValue(source);
  }

  private lookUp(reference: string, path: string[]): unknown {
    const target = this.absolute(reference, path);
    const value = getPath(this.tree, target);
    if (value !== undefined) return this.resolveNested(value, target);
    const near = this.options.suggest?.(target) ?? [];
    throw new InterpolationFailure(
      `there is no key ${target.join('.')}${near.length > 0 ? `; did you mean ${near.join(', ')}?` : ''}`,
    );
  }

  private resolveNested(value: unknown, path: string[]): unknown {
    if (typeof value === 'string') return this.resolveAt(path, value);
    if (Array.isArray(value)) return value.map((item, index) => this.resolveNested(item, [...path, String(index)]));
    if (isTree(value))
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, this.resolveNested(item, [...path, key])]),
      );
    return value;
  }

  private absolute(reference: string, path: string[]): string[] {
    const dots = /^\.*/.exec(reference)![0].length;
    const segments = reference
      .slice(dots)
      .replaceAll(/\[(\w+)\]/g, '.$1')
      .split('.')
      .filter((segment) => segment !== '');
    // One dot is the group that the value lives in, each further one its parent.
    return dots === 0 ? segments : [...path.slice(0, Math.max(0, path.length - dots)), ...segments];
  }
}

function closingBrace(text: string, start: number): number {
  let depth = 0;
  for (let position = start; position < text.length; position++) {
    if (text[position] === '{') depth++;
    else if (text[position] === '}' && --depth === 0) return position;
  }
  throw new InterpolationFailure('missing } of an interpolation');
}

function splitArguments(source: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let quote = '';
  let start = 0;
  for (let position = 0; position < source.length; position++) {
    const character = source[position]!;
    if (quote !== '') quote = character === quote ? '' : quote;
    else if (character === "'" || character === '"') quote = character;
    else if ('{['.includes(character)) depth++;
    else if ('}]'.includes(character)) depth--;
    else if (character === ',' && depth === 0) {
      parts.push(source.slice(start, position));
      start = position + 1;
    }
  }
  parts.push(source.slice(start));
  return parts;
}
