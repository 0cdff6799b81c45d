import type { ConfigKind } from '../schema/index.js';
import { easyR1Aliases } from './easyr1.js';
import { megatronAliases } from './megatron.js';
import { type Alias, AliasTable } from './table.js';
import { rayAliases, searchAliases, sftAliases, verlAliases } from './verl.js';

/** Foreign names of keys, by the tree they belong to. */
export const aliasesOf: Record<ConfigKind, readonly Alias[]> = {
  ppo: [...verlAliases, ...searchAliases, ...easyR1Aliases, ...megatronAliases],
  sft: sftAliases,
  generation: rayAliases,
  evaluation: rayAliases,
};

const tables: Record<ConfigKind, AliasTable> = {
  ppo: new AliasTable(aliasesOf.ppo),
  sft: new AliasTable(aliasesOf.sft),
  generation: new AliasTable(aliasesOf.generation),
  evaluation: new AliasTable(aliasesOf.evaluation),
};

export const aliasTable = (kind: ConfigKind): AliasTable => tables[kind];
export type { Alias, AliasFamily, AliasResult } from './table.js';
