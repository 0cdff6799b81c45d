import { isTree } from './tree.js';

/** Where a value came from. */
export type Source =
  | { kind: 'default' }
  | { kind: 'file'; file: string; line: number }
  | { kind: 'object'; name: string }
  | { kind: 'command line'; word: string };

export function describeSource(source: Source): string {
  switch (source.kind) {
    case 'default':
      return 'default';
    case 'file':
      return `${source.file}:${source.line}`;
    case 'object':
      return source.name;
    case 'command line':
      return `command line: ${source.word}`;
  }
}

/** One value put at one key. A configuration is the defaults with a list of these applied in order. */
export interface Assignment {
  path: string[];
  value: unknown;
  /** The scalar as it was written; text keys keep it when YAML or the shell word reads as a number. */
  raw?: string;
  source: Source;
  /** `~key`: go back to the default, or drop a free-form key. */
  remove?: boolean;
}

/** An object as assignments to its leaves, so that objects merge key by key and lists replace each other. */
export function* flatten(value: unknown, source: Source, prefix: string[] = []): Generator<Assignment> {
  if (value === undefined) return;
  if (!isTree(value) || Object.keys(value).length === 0) {
    yield { path: prefix, value, source };
    return;
  }
  for (const [key, child] of Object.entries(value)) yield* flatten(child, source, [...prefix, key]);
}
