import { z } from 'zod';
import { nearest } from './distance.js';
import { metaOf } from './field.js';

/** Reading a schema as a tree of dotted keys. Pure: takes schemas and plain values, returns plain values. */

export type Tree = Record<string, unknown>;

export function isTree(value: unknown): value is Tree {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The schema below `nullable()` wrappers. */
export function bare(schema: z.ZodType): z.ZodType {
  let current = schema;
  while (current instanceof z.ZodNullable) current = current.unwrap() as z.ZodType;
  return current;
}

export function childrenOf(schema: z.ZodType): Record<string, z.ZodType> | null {
  const inner = bare(schema);
  return inner instanceof z.ZodObject ? (inner.shape as Record<string, z.ZodType>) : null;
}

export const isFreeForm = (schema: z.ZodType): boolean => bare(schema) instanceof z.ZodRecord;

export interface Place {
  schema: z.ZodType;
  /** How many segments of the path the schema knows; the rest lies inside a free-form key. */
  depth: number;
}

/** The schema node that a path ends in, or the deepest free-form node it runs into; null when the path is unknown. */
export function placeOf(root: z.ZodType, path: readonly string[]): Place | null {
  let schema = root;
  for (const [depth, segment] of path.entries()) {
    if (isFreeForm(schema)) return { schema, depth };
    const child = childrenOf(schema)?.[segment];
    if (child === undefined) {
      // `data.train_files.0=x` sets one element of a list.
      return depth > 0 && childrenOf(schema) === null && /^\d+$/.test(segment) ? { schema, depth } : null;
    }
    schema = child;
  }
  return { schema, depth: path.length };
}

export interface Leaf {
  path: string[];
  schema: z.ZodType;
}

const leavesOfRoot = new WeakMap<z.ZodType, readonly Leaf[]>();

/** Every key of the schema that holds a value, in declaration order. */
export function leavesOf(schema: z.ZodType, prefix: string[] = []): readonly Leaf[] {
  const cached = prefix.length === 0 ? leavesOfRoot.get(schema) : undefined;
  if (cached !== undefined) return cached;
  const children = childrenOf(schema);
  const leaves =
    children === null
      ? [{ path: prefix, schema }]
      : Object.entries(children).flatMap(([name, child]) => leavesOf(child, [...prefix, name]));
  if (prefix.length === 0) leavesOfRoot.set(schema, leaves);
  return leaves;
}

export function defaultsOf(schema: z.ZodType): unknown {
  const children = childrenOf(schema);
  if (children === null) return structuredClone(metaOf(schema).default);
  return Object.fromEntries(Object.entries(children).map(([name, child]) => [name, defaultsOf(child)]));
}

export function getPath(tree: unknown, path: readonly string[]): unknown {
  let current = tree;
  for (const segment of path) {
    if (Array.isArray(current) && /^\d+$/.test(segment)) current = current[Number(segment)];
    else if (isTree(current) && Object.hasOwn(current, segment)) current = current[segment];
    else return undefined;
  }
  return current;
}

export function setPath(tree: Tree, path: readonly string[], value: unknown): void {
  let current: Tree | unknown[] = tree;
  for (const segment of path.slice(0, -1)) {
    const next: unknown = Array.isArray(current) ? current[Number(segment)] : own(current, segment);
    if (isTree(next) || Array.isArray(next)) {
      current = next;
    } else {
      const made: Tree = {};
      assign(current, segment, made);
      current = made;
    }
  }
  assign(current, path[path.length - 1]!, value);
}

export function deletePath(tree: Tree, path: readonly string[]): void {
  const parent = getPath(tree, path.slice(0, -1));
  if (isTree(parent)) delete parent[path[path.length - 1]!];
}

const own = (tree: Tree, key: string): unknown => (Object.hasOwn(tree, key) ? tree[key] : undefined);

function assign(target: Tree | unknown[], key: string, value: unknown): void {
  if (Array.isArray(target)) target[Number(key)] = value;
  // Not plain assignment: a key named __proto__ in a file must become a key, not a prototype.
  else Object.defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
}

/** Real keys that a person may have meant by `path`: a typo in one segment, or the right name in another place. */
export function nearestKeys(root: z.ZodType, path: readonly string[]): string[] {
  const { known, unknownSegment } = splitAtUnknown(root, path);
  const parent = placeOf(root, known)?.schema ?? root;
  const siblings = nearest(unknownSegment, Object.keys(childrenOf(parent) ?? {})).map((name) =>
    [...known, name].join('.'),
  );
  if (siblings.length > 0) return siblings;
  const all = [...allPaths(root)];
  const sameName = all.filter((candidate) => candidate.split('.').at(-1) === path.at(-1)).slice(0, 3);
  return sameName.length > 0 ? sameName : nearest(path.join('.'), all);
}

/** Where a path leaves the schema. */
export function splitAtUnknown(root: z.ZodType, path: readonly string[]): { known: string[]; unknownSegment: string } {
  let depth = 0;
  while (depth < path.length && placeOf(root, path.slice(0, depth + 1)) !== null) depth++;
  return { known: path.slice(0, depth), unknownSegment: path[depth] ?? '' };
}

function* allPaths(schema: z.ZodType, prefix: string[] = []): Generator<string> {
  for (const [name, child] of Object.entries(childrenOf(schema) ?? {})) {
    const path = [...prefix, name];
    yield path.join('.');
    yield* allPaths(child, path);
  }
}
