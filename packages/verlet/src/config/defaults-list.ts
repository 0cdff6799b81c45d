import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import type { Assignment } from './assignment.js';
import { builtinAssignments } from './builtin.js';
import { nearest } from './distance.js';
import { UserError } from './errors.js';
import type { Override } from './override.js';
import { expandHome } from './paths.js';
import { type ConfigFile, type DefaultsEntry, readConfigText } from './yaml-file.js';

/**
 * Hydra's composition of config files: a `defaults:` list names other files and group options, `_self_` says where the
 * file's own keys go among them (last, when it is not named), `group@package` says where an option's keys go.
 */
export interface GroupChoices {
  /** `group` or `group@package` to option, from the command line. */
  chosen: Map<string, string | null>;
  /** Choices that some defaults list really offered. */
  used: Set<string>;
}

export function groupChoices(overrides: readonly Override[]): GroupChoices {
  const chosen = new Map<string, string | null>();
  for (const override of overrides) {
    const name = override.package === undefined ? override.key : `${override.key}@${override.package}`;
    if (override.operation === 'remove') chosen.set(name, null);
    else if (typeof override.value === 'string' || override.value === null)
      chosen.set(name, override.value as string | null);
  }
  return { chosen, used: new Set() };
}

interface Position {
  file: string;
  /** Folder that absolute group names (`/group`) count from. */
  root: string;
  searchpath: string[];
  /** Where the keys go, as path segments. */
  packagePath: string[];
  stack: string[];
}

/** All assignments of one `--config`: a YAML or JSON file, or the name of a built-in one. */
export function composeFile(name: string, choices: GroupChoices): Assignment[] {
  const builtin = existsSync(expandHome(name)) ? null : builtinAssignments(name);
  if (builtin !== null) return builtin;
  const file = resolve(expandHome(name));
  return composeAt({ file, root: dirname(file), searchpath: [], packagePath: [], stack: [] }, choices);
}

function composeAt(position: Position, choices: GroupChoices): Assignment[] {
  if (position.stack.includes(position.file)) {
    throw new UserError(
      `config files include each other: ${[...position.stack, position.file].map(shown).join(' -> ')}`,
    );
  }
  const config = readConfigFile(position.file);
  const here: Position = {
    ...position,
    packagePath: config.package === undefined ? position.packagePath : packageSegments(config.package, []),
    searchpath: [...position.searchpath, ...config.searchpath.map((entry) => resolve(entry.replace(/^file:\/\//, '')))],
    stack: [...position.stack, position.file],
  };
  const own = config.assignments.map((assignment) => ({
    ...assignment,
    path: [...here.packagePath, ...assignment.path],
  }));
  const entries: DefaultsEntry[] = config.defaults.some((entry) => entry.kind === 'self')
    ? config.defaults
    : [...config.defaults, { kind: 'self' }];
  const overriding = new Map(
    entries.flatMap((entry) =>
      entry.kind === 'group' && entry.override ? [[groupName(entry), entry.options] as const] : [],
    ),
  );
  for (const [name, options] of overriding) if (!choices.chosen.has(name)) choices.chosen.set(name, options[0] ?? null);
  return entries.flatMap((entry) => {
    if (entry.kind === 'self') return own;
    if (entry.kind === 'config') return composeNamed(entry.name, entry.package, here, entry.line, false, choices);
    return entry.override ? [] : composeGroup(entry, here, choices);
  });
}

function composeGroup(
  entry: Extract<DefaultsEntry, { kind: 'group' }>,
  here: Position,
  choices: GroupChoices,
): Assignment[] {
  const name = groupName(entry);
  let options = entry.options;
  for (const key of [name, entry.group]) {
    if (!choices.chosen.has(key)) continue;
    const choice = choices.chosen.get(key) ?? null;
    choices.used.add(key);
    options = choice === null ? [] : [choice];
    break;
  }
  const packageName = entry.package ?? entry.group.replace(/^\//, '').replaceAll('/', '.');
  return options.flatMap((option) =>
    composeNamed(`${entry.group}/${option}`, packageName, here, entry.line, entry.optional, choices),
  );
}

function composeNamed(
  name: string,
  packageName: string | undefined,
  here: Position,
  line: number,
  optional: boolean,
  choices: GroupChoices,
): Assignment[] {
  const folders = [name.startsWith('/') ? here.root : dirname(here.file), here.root, ...here.searchpath];
  const packagePath = packageSegments(packageName, here.packagePath);
  for (const folder of folders) {
    const candidate = ['', '.yaml', '.yml', '.json']
      .map((end) => join(folder, name.replace(/^\//, '') + end))
      .find(isFile);
    if (candidate !== undefined) return composeAt({ ...here, file: candidate, packagePath }, choices);
  }
  const builtin = builtinAssignments(basename(name));
  if (builtin !== null)
    return builtin.map((assignment) => ({ ...assignment, path: [...packagePath, ...assignment.path] }));
  if (optional) return [];
  throw new UserError(
    `${shown(here.file)}:${line}: defaults name ${name}, but there is no ${name.replace(/^\//, '')}.yaml in ${[...new Set(folders)].map(shown).join(', ')}`,
  );
}

const groupName = (entry: Extract<DefaultsEntry, { kind: 'group' }>): string =>
  entry.package === undefined ? entry.group : `${entry.group}@${entry.package}`;

function packageSegments(name: string | undefined, parent: string[]): string[] {
  if (name === undefined || name === '_here_') return parent;
  if (name === '_global_') return [];
  if (name.startsWith('_global_.')) return name.slice('_global_.'.length).split('.');
  return [...parent, ...name.split('.')];
}

function readConfigFile(file: string): ConfigFile {
  if (!existsSync(file)) {
    const near = nearest(basename(file), [
      'ppo_trainer',
      'ppo_megatron_trainer',
      'sft_trainer',
      'generation',
      'evaluation',
    ]);
    throw new UserError(
      `config file ${shown(file)} does not exist${near.length > 0 ? `; is ${near[0]} meant, which is built in?` : ''}`,
    );
  }
  if (!isFile(file)) throw new UserError(`config file ${shown(file)} is a folder; name a .yaml file in it`);
  return readConfigText(readFileSync(file, 'utf8'), shown(file));
}

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile();

/** Paths as a person in this folder would write them. */
function shown(path: string): string {
  const short = relative(process.cwd(), path);
  return short === '' ? '.' : short.startsWith('..') ? path : short;
}
