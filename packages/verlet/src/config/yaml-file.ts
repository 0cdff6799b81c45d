import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument, type YAMLMap } from 'yaml';
import type { Assignment } from './assignment.js';
import { UserError } from './errors.js';

export interface ConfigFile {
  /** Leaf assignments of the file's own keys, with line numbers. */
  assignments: Assignment[];
  defaults: DefaultsEntry[];
  searchpath: string[];
  /** From a `# @package name` header. */
  package?: string;
}

/** One line of a `defaults:` list. */
export type DefaultsEntry =
  | { kind: 'self' }
  | { kind: 'config'; name: string; package?: string; line: number }
  | {
      kind: 'group';
      group: string;
      package?: string;
      options: string[];
      optional: boolean;
      override: boolean;
      line: number;
    };

/** Reads YAML (or JSON, its subset), keeping the line of every value. `file` is only used in messages. */
export function readConfigText(text: string, file: string): ConfigFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, merge: true, strict: true, uniqueKeys: true });
  const broken = document.errors[0];
  if (broken !== undefined) {
    throw new UserError(`${file}:${broken.linePos?.[0].line ?? 1}: not valid YAML: ${broken.message.split('\n')[0]}`);
  }
  const lineOf = (node: Node | null | undefined): number => (node?.range ? lines.linePos(node.range[0]).line : 1);
  const result: ConfigFile = { assignments: [], defaults: [], searchpath: [] };
  const header = /^#\s*@package\s+(\S+)/m.exec(text);
  if (header !== null) result.package = header[1]!;
  const root = document.contents;
  if (root === null || (isScalar(root) && root.value === null)) return result;
  if (!isMap(root))
    throw new UserError(
      `${file}:${lineOf(root)}: a config file holds keys and values, not a ${isSeq(root) ? 'list' : 'single value'}`,
    );

  const walk = (node: unknown, path: string[], line: number): void => {
    const target = isAlias(node) ? node.resolve(document) : node;
    if (isMap(target) && target.items.length > 0) {
      for (const pair of target.items) {
        const key = keyOf(pair, file, line);
        const keyLine = lineOf(pair.key as Node);
        // `<<: *base` takes over keys that the map does not have itself; they come first so that its own win.
        if (key === '<<') for (const source of mergeSources(pair.value, document)) walk(source, path, keyLine);
      }
      for (const pair of target.items) {
        const key = keyOf(pair, file, line);
        if (key !== '<<') walk(pair.value, [...path, key], lineOf(pair.key as Node));
      }
      return;
    }
    const value = isMap(target) ? {} : isSeq(target) ? target.toJS(document) : isScalar(target) ? target.value : null;
    const assignment: Assignment = { path, value, source: { kind: 'file', file, line } };
    if (isScalar(target) && typeof target.source === 'string') assignment.raw = target.source;
    result.assignments.push(assignment);
  };

  for (const pair of root.items) {
    const key = keyOf(pair, file, 1);
    const line = lineOf(pair.key as Node);
    if (key === 'defaults') result.defaults = readDefaults(pair.value, file, lineOf);
    else if (key === 'hydra') result.searchpath = readSearchpath(pair.value, document);
    else if (key === '<<') for (const source of mergeSources(pair.value, document)) walk(source, [], line);
    else walk(pair.value, [key], line);
  }
  return result;
}

function keyOf(pair: Pair, file: string, line: number): string {
  const key = isScalar(pair.key) ? pair.key.value : pair.key;
  // The library marks a merge key by a symbol of that name.
  if (typeof key === 'symbol') return key.description ?? '<<';
  if (typeof key === 'string') return key;
  // YAML 1.2 reads a bare `n:` as text, but numbers and booleans as keys stay what they are.
  if (typeof key === 'number' || typeof key === 'boolean') return String(key);
  throw new UserError(`${file}:${line}: keys must be plain words`);
}

function mergeSources(value: unknown, document: ReturnType<typeof parseDocument>): YAMLMap[] {
  const target = isAlias(value) ? value.resolve(document) : value;
  if (isMap(target)) return [target];
  return isSeq(target) ? target.items.flatMap((item) => mergeSources(item, document)).reverse() : [];
}

function readSearchpath(value: unknown, document: ReturnType<typeof parseDocument>): string[] {
  const hydra = isMap(value) ? (value.toJS(document) as { searchpath?: unknown }) : {};
  return Array.isArray(hydra.searchpath) ? hydra.searchpath.filter((entry) => typeof entry === 'string') : [];
}

function readDefaults(value: unknown, file: string, lineOf: (node: Node) => number): DefaultsEntry[] {
  if (!isSeq(value))
    throw new UserError(`${file}: defaults must be a list, for example\ndefaults:\n  - ppo_trainer\n  - _self_`);
  return value.items.map((item): DefaultsEntry => {
    const line = lineOf(item as Node);
    if (isScalar(item) && typeof item.value === 'string') {
      if (item.value === '_self_') return { kind: 'self' };
      const [name, packageName] = item.value.split('@') as [string, string?];
      return { kind: 'config', name, line, ...(packageName === undefined ? {} : { package: packageName }) };
    }
    if (isMap(item) && item.items.length === 1) {
      const pair = item.items[0]!;
      const words = keyOf(pair, file, line).split(/\s+/);
      const [group, packageName] = words.at(-1)!.split('@') as [string, string?];
      const chosen: unknown = isSeq(pair.value) ? pair.value.toJSON() : isScalar(pair.value) ? pair.value.value : null;
      const options = (Array.isArray(chosen) ? chosen : chosen === null ? [] : [chosen]).map(String);
      return {
        kind: 'group',
        group,
        options,
        optional: words.includes('optional'),
        override: words.includes('override'),
        line,
        ...(packageName === undefined ? {} : { package: packageName }),
      };
    }
    throw new UserError(`${file}:${line}: an entry of defaults is a config name, group: option, or _self_`);
  });
}
