import type { z } from 'zod';
import { type Assignment, describeSource, type Source } from './assignment.js';
import { nearest } from './distance.js';
import type { ConfigProblem } from './errors.js';
import { MISSING } from './field.js';
import { hasInterpolation, resolveInterpolations } from './interpolation.js';
import {
  childrenOf,
  defaultsOf,
  deletePath,
  getPath,
  isFreeForm,
  isTree,
  leavesOf,
  nearestKeys,
  placeOf,
  setPath,
  splitAtUnknown,
  type Tree,
} from './tree.js';
import { typeText, valueText } from './type-text.js';
import { primitive } from './value.js';

export interface Provenance {
  source: Source;
  /** The foreign name it was written under. */
  renamedFrom?: string;
  /** The `${...}` text it was computed from. */
  interpolation?: string;
}

const UNSET: Provenance = { source: { kind: 'default' } };

/** Defaults of a schema with assignments put over them one by one; remembers who set what. */
export class MergedTree {
  readonly provenance = new Map<string, Provenance>();
  readonly problems: ConfigProblem[] = [];
  private readonly tree: Tree;
  private readonly schema: z.ZodType;
  private readonly environment: Record<string, string | undefined>;

  constructor(schema: z.ZodType, environment: Record<string, string | undefined>) {
    this.schema = schema;
    this.environment = environment;
    this.tree = defaultsOf(schema) as Tree;
  }

  valueAt(path: readonly string[]): unknown {
    return getPath(this.tree, path);
  }

  where(key: string): string | undefined {
    const provenance = this.provenance.get(key);
    if (provenance === undefined) return undefined;
    const origin = describeSource(provenance.source);
    return provenance.renamedFrom === undefined ? origin : `${origin}, written as ${provenance.renamedFrom}`;
  }

  apply(assignment: Assignment & { renamedFrom?: string }): void {
    const { path, value, source, renamedFrom } = assignment;
    const key = path.join('.');
    const place = placeOf(this.schema, path);
    if (place === null) {
      this.reportUnknown(assignment);
      return;
    }
    if (assignment.remove === true) {
      this.remove(assignment);
      return;
    }
    if (place.depth === path.length && childrenOf(place.schema) !== null) {
      // verl writes `reward_model: null` and `{}` for blocks that are left alone.
      if (value === null || isTree(value)) return;
      this.report(
        key,
        `is a group of keys (${Object.keys(childrenOf(place.schema)!).slice(0, 4).join(', ')}, ...), got ${valueText(value)}`,
        source,
      );
      return;
    }
    if (isFreeForm(place.schema) && isTree(value) && isTree(getPath(this.tree, path))) return;
    setPath(this.tree, path, asWritten(place.schema, structuredClone(value), assignment.raw));
    for (const other of [...this.provenance.keys()]) if (other.startsWith(`${key}.`)) this.provenance.delete(other);
    this.provenance.set(key, renamedFrom === undefined ? { source } : { source, renamedFrom });
  }

  /** Interpolates, fits values to their types, and checks them. */
  resolve(): { tree: Tree; problems: ConfigProblem[] } {
    const problems: ConfigProblem[] = [];
    const echoes: ConfigProblem[] = [];
    const interpolated = resolveInterpolations(this.tree, {
      environment: this.environment,
      suggest: (path) => nearestKeys(this.schema, path),
    });
    const failed = new Set(interpolated.problems.map(({ path }) => path));
    for (const problem of interpolated.problems) problems.push({ ...problem, ...this.origin(problem.path) });
    this.rememberInterpolations(this.tree, []);
    for (const { path, schema } of leavesOf(this.schema)) {
      const key = path.join('.');
      if (failed.has(key)) continue;
      const value = getPath(interpolated.tree, path);
      if (value === MISSING) continue;
      const fitted = fit(schema, value, hasInterpolation(getPath(this.tree, path)));
      if (fitted === null) {
        // A default that only repeats a wrong value would report it a second time.
        const list = this.provenance.get(key)?.source.kind === 'default' ? echoes : problems;
        list.push({ path: key, message: mismatch(schema, value), ...this.origin(key) });
      } else setPath(interpolated.tree, path, fitted.value);
    }
    return { tree: interpolated.tree, problems: problems.length > 0 ? problems : echoes };
  }

  private rememberInterpolations(value: unknown, path: string[]): void {
    if (isTree(value)) {
      for (const [name, child] of Object.entries(value)) this.rememberInterpolations(child, [...path, name]);
    } else if (hasInterpolation(value)) {
      const key = path.join('.');
      this.provenance.set(key, { ...(this.provenance.get(key) ?? UNSET), interpolation: value as string });
    }
  }

  private remove({ path, value, raw, source }: Assignment): void {
    const key = path.join('.');
    const current = getPath(this.tree, path);
    if (current === undefined) {
      this.report(key, 'cannot be removed: it is not set', source);
      return;
    }
    if (value !== undefined && JSON.stringify(current) !== JSON.stringify(value)) {
      this.report(key, `cannot be removed: it is ${valueText(current)}, not ${raw ?? valueText(value)}`, source);
      return;
    }
    const place = placeOf(this.schema, path)!;
    if (place.depth < path.length) deletePath(this.tree, path);
    else setPath(this.tree, path, defaultsOf(place.schema));
    for (const other of [...this.provenance.keys()]) {
      if (other === key || other.startsWith(`${key}.`)) {
        this.provenance.delete(other);
      }
    }
  }

  private reportUnknown({ path, source, value }: Assignment): void {
    const { known, unknownSegment } = splitAtUnknown(this.schema, path);
    const key = [...known, unknownSegment].join('.');
    if (this.problems.some((problem) => problem.path === key)) return;
    const parent = placeOf(this.schema, known)!.schema;
    if (childrenOf(parent) === null) {
      this.report(
        known.join('.'),
        `expected ${typeText(parent)}, got the key ${unknownSegment} = ${valueText(value)} below it`,
        source,
      );
      return;
    }
    const near = nearestKeys(this.schema, path);
    const hint =
      near.length > 0
        ? `did you mean ${near.join(' or ')}?`
        : 'see `verlet config` for all keys; your own values go under custom';
    this.report(key, `there is no such key; ${hint}`, source);
  }

  private report(path: string, message: string, source: Source): void {
    this.problems.push({ path, message, where: describeSource(source) });
  }

  private origin(key: string): { where?: string } {
    const where = this.where(key);
    return where === undefined ? {} : { where };
  }
}

/** `experiment_name=007` is text although it reads as a number, and YAML 1.1's yes and no are booleans. */
function asWritten(schema: z.ZodType, value: unknown, raw: string | undefined): unknown {
  const candidates: unknown[] = [];
  if (raw !== undefined && (typeof value === 'number' || typeof value === 'boolean')) candidates.push(raw);
  if (typeof value === 'string' && /^(yes|on)$/i.test(value)) candidates.push(true);
  if (typeof value === 'string' && /^(no|off)$/i.test(value)) candidates.push(false);
  if (candidates.length === 0 || isFreeForm(schema) || schema.safeParse(value).success) return value;
  return candidates.find((candidate) => schema.safeParse(candidate).success) ?? value;
}

/** The value as the key's type takes it; text that an interpolation produced (`${oc.env:GPUS}`) is read once more. */
function fit(schema: z.ZodType, value: unknown, isComputed: boolean): { value: unknown } | null {
  if (schema.safeParse(value).success) return { value };
  if (!isComputed || typeof value !== 'string') return null;
  const read = primitive(value);
  return schema.safeParse(read).success ? { value: read } : null;
}

function mismatch(schema: z.ZodType, value: unknown): string {
  const expected = typeText(schema);
  const choices = /one of (.*?)(?: or |$)/.exec(expected)?.[1]?.split(', ') ?? [];
  const near = typeof value === 'string' ? nearest(value, choices, 1) : [];
  return `expected ${expected}, got ${valueText(value)}${near.length > 0 ? `; did you mean ${near[0]}?` : ''}`;
}
