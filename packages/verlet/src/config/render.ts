import { describeSource } from './assignment.js';
import type { Composed } from './compose.js';
import type { Provenance } from './merge.js';
import { isTree } from './tree.js';

/** What tells a default from a choice: shown unless the whole tree is asked for. */
export interface RenderOptions {
  /** Print only these dotted keys and what is below them. */
  only?: readonly string[];
  /** Leave out keys that have their default. */
  changedOnly?: boolean;
  /** Longest value column before origins move to the right. */
  width?: number;
}

/** The resolved tree as YAML, with the origin of each value in a comment. */
export function renderConfig(
  composed: Pick<Composed<unknown>, 'config' | 'provenance'>,
  options: RenderOptions = {},
): string {
  const lines: { text: string; origin: string }[] = [];
  const visit = (value: unknown, path: string[]): void => {
    const key = path.join('.');
    const provenance = originOf(composed.provenance, path);
    if (isTree(value) && Object.keys(value).length > 0) {
      const start = lines.length;
      for (const [name, child] of Object.entries(value)) visit(child, [...path, name]);
      if (path.length > 0 && lines.length > start)
        lines.splice(start, 0, { text: `${indent(path)}${scalar(path.at(-1))}:`, origin: '' });
      return;
    }
    if (options.changedOnly === true && provenance.source.kind === 'default') return;
    if (
      options.only !== undefined &&
      options.only.length > 0 &&
      !options.only.some((only) => key === only || key.startsWith(`${only}.`))
    )
      return;
    lines.push({ text: `${indent(path)}${scalar(path.at(-1))}: ${scalar(value)}`, origin: origin(provenance) });
  };
  visit(composed.config, []);
  const column = Math.min(options.width ?? 64, Math.max(0, ...lines.map(({ text }) => text.length)));
  return lines.map(({ text, origin }) => (origin === '' ? text : `${text.padEnd(column)}  # ${origin}`)).join('\n');
}

/** The same for programs: the tree, and the origin of every value that is not a default. */
export function renderConfigJson(composed: Pick<Composed<unknown>, 'config' | 'provenance' | 'notices'>): string {
  const provenance = Object.fromEntries(
    [...composed.provenance]
      .filter(([, entry]) => entry.source.kind !== 'default')
      .map(([key, entry]) => [key, origin(entry)]),
  );
  return JSON.stringify({ config: composed.config, provenance, notices: composed.notices }, null, 2);
}

/** A value inside a list or a free-form key has the origin of the nearest key above it that has one. */
function originOf(provenance: ReadonlyMap<string, Provenance>, path: string[]): Provenance {
  for (let length = path.length; length > 0; length--) {
    const found = provenance.get(path.slice(0, length).join('.'));
    if (found !== undefined) return found;
  }
  return { source: { kind: 'default' } };
}

function origin({ source, renamedFrom, interpolation }: Provenance): string {
  // The value stands beside it, so that the word of the command line would only repeat it.
  const parts = [source.kind === 'command line' ? source.kind : describeSource(source)];
  if (renamedFrom !== undefined) parts.push(`written as ${renamedFrom}`);
  if (interpolation !== undefined) parts.push(`from ${interpolation}`);
  return parts.join(', ');
}

const indent = (path: readonly string[]): string => '  '.repeat(path.length - 1);

/** One-line YAML of a leaf; plain where YAML reads it back the same, quoted where not. */
export function scalar(value: unknown): string {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'string')
    return /^(~\/|[A-Za-z_/])[\w ./@~+-]*$/.test(value) &&
      !/^(null|true|false|yes|no|on|off)$/i.test(value) &&
      value.trim() === value
      ? value
      : JSON.stringify(value);
  if (typeof value === 'number')
    return Number.isFinite(value) ? compactNumber(value) : value > 0 ? '.inf' : value < 0 ? '-.inf' : '.nan';
  if (Array.isArray(value)) return `[${value.map(scalar).join(', ')}]`;
  if (isTree(value)) {
    const entries = Object.entries(value).map(([key, child]) => `${scalar(key)}: ${scalar(child)}`);
    return entries.length === 0 ? '{}' : `{ ${entries.join(', ')} }`;
  }
  return String(value);
}

/** 1e-6 instead of 0.000001: learning rates are read in powers of ten. */
const compactNumber = (value: number): string =>
  value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential().replace('e+', 'e') : String(value);
