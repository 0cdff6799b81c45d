import type { z } from 'zod';
import type { AliasFamily } from './aliases/index.js';
import { metaOf } from './field.js';
import type { Provenance } from './merge.js';
import type { Translated } from './translate.js';
import { getPath, leavesOf } from './tree.js';

export interface Renaming {
  from: string;
  to: string[];
  family: AliasFamily;
}

/** A whole file in foreign names would bury the other lines. */
const RENAMINGS_SHOWN = 8;

/** What a person should know before the run: at most one line per subject, however many keys it names. */
export function collectNotices(
  schema: z.ZodType,
  config: unknown,
  provenance: ReadonlyMap<string, Provenance>,
  translated: Translated,
): string[] {
  const notices: string[] = [];
  const inert = inertKeys(schema, config, provenance);
  const byReason = new Map<string, Set<string>>();
  for (const { key, reason } of [...inert, ...translated.ignored]) {
    byReason.set(reason, (byReason.get(reason) ?? new Set()).add(key));
  }
  if (byReason.size > 0) {
    const reasons = [...byReason].map(([reason, keys]) => `${[...keys].join(', ')} (${reason})`);
    notices.push(`accepted, no effect here: ${reasons.join('; ')}`);
  }

  const renamed = new Set(
    translated.renamed
      .filter(({ from, to }) => to.length > 0 && !to.includes(from))
      .map(({ from, to }) => `${from} -> ${to.join(' and ')}`),
  );
  if (renamed.size > 0) {
    const rest =
      renamed.size > RENAMINGS_SHOWN ? `, and ${renamed.size - RENAMINGS_SHOWN} more (verlet config shows all)` : '';
    notices.push(`renamed: ${[...renamed].slice(0, RENAMINGS_SHOWN).join(', ')}${rest}`);
  }

  for (const block of [['actor_rollout_ref', 'rollout'], ['rollout']]) {
    const engine = getPath(config, [...block, 'name']);
    const isRemote = typeof getPath(config, [...block, 'server', 'base_url']) === 'string';
    if (typeof engine === 'string' && engine !== 'verlet' && !isRemote) {
      notices.push(`${block.join('.')}.name=${engine}: the built-in engine samples in its place`);
    }
  }
  return notices;
}

/** Keys that somebody set, that do nothing here, and that were not set to what happens anyway. */
function inertKeys(
  schema: z.ZodType,
  config: unknown,
  provenance: ReadonlyMap<string, Provenance>,
): { key: string; reason: string }[] {
  const result: { key: string; reason: string }[] = [];
  const set = [...provenance].filter(([, { source }]) => source.kind !== 'default').map(([key]) => key);
  for (const { path, schema: leaf } of leavesOf(schema)) {
    const meta = metaOf(leaf);
    if (meta.inert === undefined) continue;
    const key = path.join('.');
    const isSet = set.some((candidate) => candidate === key || candidate.startsWith(`${key}.`));
    const isDefault =
      provenance.get(key)?.interpolation === meta.default ||
      JSON.stringify(getPath(config, path)) === JSON.stringify(meta.default);
    if (isSet && !isDefault) result.push({ key, reason: meta.inert });
  }
  return result;
}
