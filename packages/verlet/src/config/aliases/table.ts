/** Whose name a key carries. */
export type AliasFamily = 'verl (older or newer)' | 'EasyR1' | 'Search-R1' | 'Megatron';

/** What a foreign key becomes: real keys with values, or nothing and the reason why it has no effect. */
export type AliasResult = { set: [key: string, value: unknown][] } | { ignored: string };

export interface Alias {
  /** A dotted key; a final `*` stands for the rest of the path. */
  from: string;
  family: AliasFamily;
  /** `rest` is what `*` stood for, '' without one. Null: not this alias after all. */
  apply: (value: unknown, rest: string) => AliasResult | null;
}

export function rename(family: AliasFamily, from: string, ...to: string[]): Alias {
  return { from, family, apply: (value, rest) => ({ set: to.map((key) => [key.replace('*', rest), value]) }) };
}

export function translate(family: AliasFamily, from: string, apply: (value: unknown) => [string, unknown][]): Alias {
  return { from, family, apply: (value) => ({ set: apply(value) }) };
}

export function withoutEffect(family: AliasFamily, from: string, reason: string): Alias {
  return { from, family, apply: () => ({ ignored: reason }) };
}

/** Finds the alias for a path. Exact names win over patterns, longer patterns over shorter ones. */
export class AliasTable {
  private readonly exact = new Map<string, Alias>();
  private readonly patterns: Alias[] = [];

  constructor(aliases: readonly Alias[]) {
    for (const alias of aliases) {
      if (alias.from.endsWith('*')) this.patterns.push(alias);
      else this.exact.set(alias.from, alias);
    }
    this.patterns.sort((a, b) => b.from.length - a.from.length);
  }

  find(key: string): { alias: Alias; rest: string } | null {
    const exact = this.exact.get(key);
    if (exact !== undefined) return { alias: exact, rest: '' };
    for (const alias of this.patterns) {
      const prefix = alias.from.slice(0, -1);
      if (key.startsWith(prefix) && key.length > prefix.length) return { alias, rest: key.slice(prefix.length) };
    }
    return null;
  }
}
