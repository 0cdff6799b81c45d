import { easyR1KlSwitches } from './aliases/easyr1.js';
import { aliasTable } from './aliases/index.js';
import type { Assignment } from './assignment.js';
import type { Renaming } from './notices.js';
import type { ConfigKind } from './schema/index.js';

export interface Translated {
  assignments: (Assignment & { renamedFrom?: string })[];
  renamed: Renaming[];
  /** Foreign keys that have no counterpart: key and reason. */
  ignored: { key: string; reason: string }[];
}

/** Rewrites foreign names (older verl, EasyR1, Search-R1, Megatron) into the tree's own, in place and in order. */
export function translateAliases(assignments: readonly Assignment[], kind: ConfigKind): Translated {
  const table = aliasTable(kind);
  const result: Translated = { assignments: [], renamed: [], ignored: [] };
  const easyR1Written = new Map<string, unknown>();
  let easyR1Last: Assignment | null = null;
  for (const assignment of assignments) {
    // Hydra's instantiation marks name Python classes.
    if (assignment.path.at(-1) === '_target_') continue;
    const key = assignment.path.join('.');
    if (assignment.value === null && isLegacyBlank(assignment)) continue;
    if (key === 'algorithm.kl_penalty') easyR1Written.set(key, assignment.value);
    const found = table.find(key);
    const translated = found?.alias.apply(assignment.value, found.rest) ?? null;
    if (found === null || translated === null) {
      result.assignments.push(assignment);
      continue;
    }
    if (found.alias.family === 'EasyR1') {
      easyR1Written.set(key, assignment.value);
      easyR1Last = assignment;
    }
    if ('ignored' in translated) {
      if (assignment.value !== null) result.ignored.push({ key, reason: translated.ignored });
      continue;
    }
    for (const [target, value] of translated.set) {
      const renamed: Assignment & { renamedFrom?: string } = {
        ...assignment,
        path: target.split('.'),
        value,
        renamedFrom: key,
      };
      if (value !== assignment.value) delete renamed.raw;
      result.assignments.push(renamed);
    }
    result.renamed.push({ from: key, to: translated.set.map(([target]) => target), family: found.alias.family });
  }
  if (easyR1Last !== null) {
    for (const [target, value] of easyR1KlSwitches(easyR1Written)) {
      result.assignments.push({
        path: target.split('.'),
        value,
        source: easyR1Last.source,
        renamedFrom: 'algorithm.kl_*',
      });
    }
  }
  return result;
}

/** Newer verl files keep emptied copies of old blocks, every key null; that means "see the new block", not null. */
function isLegacyBlank({ path, source }: Assignment): boolean {
  // What stands inside reward_kwargs is the reward's own: null means null there.
  if (path[1] === 'reward_kwargs' && path.length > 2 && path[0] === 'custom_reward_function') return false;
  return source.kind === 'file' && ['reward_model', 'custom_reward_function', 'sandbox_fusion'].includes(path[0]!);
}
