import { type Assignment, describeSource, flatten, type Source } from './assignment.js';
import { builtinAssignments } from './builtin.js';
import { checkConfig } from './checks.js';
import { composeFile, type GroupChoices, groupChoices } from './defaults-list.js';
import { ConfigError, type ConfigProblem, UserError } from './errors.js';
import { MISSING, metaOf } from './field.js';
import { MergedTree, type Provenance } from './merge.js';
import { collectNotices, type Renaming } from './notices.js';
import { type Override, parseOverride } from './override.js';
import { type ConfigKind, type ConfigOf, schemas } from './schema/index.js';
import { translateAliases } from './translate.js';
import { childrenOf, isTree, leavesOf, placeOf } from './tree.js';

export type DeepPartial<T> = T extends readonly unknown[]
  ? T
  : T extends object
    ? { [K in keyof T]?: DeepPartial<T[K]> }
    : T;

/** The content of a config file that is not YAML, for example of a TypeScript module. */
export interface ConfigLayer {
  name: string;
  value: unknown;
}

export interface ComposeOptions<K extends ConfigKind> {
  kind: K;
  /** Words of a command line: `a.b=c`, `+a.b=c`, `++a.b=c`, `~a.b`, `group@package=option`. */
  overrides?: readonly string[];
  /** YAML or JSON files, names of built-in ones, or loaded modules, merged in order. */
  files?: readonly (string | ConfigLayer)[];
  /** The same tree as an object, merged after the files. */
  object?: DeepPartial<ConfigOf<K>>;
  /** What messages call the object. */
  objectName?: string;
  /** Leave `???` in place instead of failing on keys that must be given. */
  allowMissing?: boolean;
  /** Skip the checks of sizes against each other; types are always checked. */
  skipChecks?: boolean;
  environment?: Record<string, string | undefined>;
}

export interface Composed<Config> {
  config: Config;
  /** Where the value of each key came from, by dotted key. */
  provenance: ReadonlyMap<string, Provenance>;
  /** Lines a person should read before the run. */
  notices: string[];
  /** Foreign names that were understood. */
  renamed: readonly Renaming[];
  /** Keys that must be given and were not; empty unless `allowMissing`. */
  missing: readonly string[];
}

/**
 * Defaults, then files, then an object, then the command line; interpolated, checked, with the origin of every value.
 * Throws one `ConfigError` that lists everything that is wrong.
 *
 * ```ts
 * const { config } = composeConfig({ kind: 'ppo', files: ['run.yaml'], overrides: ['trainer.total_epochs=3'] });
 * ```
 */
export function composeConfig<K extends ConfigKind>(options: ComposeOptions<K>): Composed<ConfigOf<K>> {
  const schema = schemas[options.kind];
  const problems: ConfigProblem[] = [];
  const assignments = gatherAssignments(options, problems);
  const translated = translateAliases(assignments, options.kind);

  const merged = new MergedTree(schema, options.environment ?? process.env);
  for (const assignment of translated.assignments) merged.apply(assignment);
  const { tree, problems: typeProblems } = merged.resolve();
  problems.push(...merged.problems, ...typeProblems);

  const missing = leavesOf(schema)
    .map(({ path }) => path)
    .filter((path) => merged.valueAt(path) === MISSING);
  if (options.allowMissing !== true) {
    const reported = new Set(problems.map(({ path }) => path));
    for (const path of missing.filter((candidate) => !reported.has(candidate.join('.')))) {
      problems.push({
        path: path.join('.'),
        message: `must be given. ${metaOf(placeOf(schema, path)!.schema).description}`,
      });
    }
  }
  if (problems.length > 0) throw new ConfigError(problems);

  const config = tree as ConfigOf<K>;
  const checks =
    options.skipChecks === true ? { problems: [], warnings: [] } : checkConfig(options.kind, config as never);
  if (checks.problems.length > 0) {
    throw new ConfigError(
      checks.problems.map((problem) => ({ ...problem, where: problem.where ?? merged.where(problem.path) })),
    );
  }
  return {
    config,
    provenance: merged.provenance,
    notices: [...collectNotices(schema, config, merged.provenance, translated), ...checks.warnings],
    renamed: translated.renamed,
    missing: missing.map((path) => path.join('.')),
  };
}

/** A PPO configuration written as a typed object: defaults filled in, checked as a file would be. */
export function definePpoConfig(object: DeepPartial<ConfigOf<'ppo'>>): ConfigOf<'ppo'> {
  return composeConfig({ kind: 'ppo', object, objectName: 'definePpoConfig' }).config;
}

export function defineSftConfig(object: DeepPartial<ConfigOf<'sft'>>): ConfigOf<'sft'> {
  return composeConfig({ kind: 'sft', object, objectName: 'defineSftConfig' }).config;
}

function gatherAssignments<K extends ConfigKind>(options: ComposeOptions<K>, problems: ConfigProblem[]): Assignment[] {
  const collect = <T>(work: () => T): T | null => {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      problems.push(...(error instanceof ConfigError ? error.problems : [{ path: '', message: error.message }]));
      return null;
    }
  };
  const overrides = (options.overrides ?? []).flatMap((word) => collect(() => parseOverride(word)) ?? []);
  // EasyR1 names its file on the command line like a key.
  const isFileWord = (override: Override) => override.key === 'config' && typeof override.value === 'string';
  const files = [...(options.files ?? []), ...overrides.filter(isFileWord).map(({ value }) => value as string)];
  const words = overrides.filter((override) => !isFileWord(override));

  const choices = groupChoices(words.filter((word) => mayChooseGroup(word, options.kind)));
  const fromFiles = files.flatMap((file) => collect(() => layerAssignments(file, choices)) ?? []);
  const objectSource: Source = { kind: 'object', name: options.objectName ?? 'object' };
  const fromObject = options.object === undefined ? [] : [...flatten(options.object, objectSource)];
  const fromWords = words.flatMap((word) => collect(() => overrideAssignments(word, choices)) ?? []);
  return [...fromFiles, ...fromObject, ...fromWords];
}

function layerAssignments(layer: string | ConfigLayer, choices: GroupChoices): Assignment[] {
  if (typeof layer === 'string') return composeFile(layer, choices);
  if (!isTree(layer.value))
    throw new UserError(`${layer.name} must export an object of settings as its default export`);
  return [...flatten(layer.value, { kind: 'object', name: layer.name })];
}

/** A word that names a config group: it has a package or a slash, or it would put text where keys belong. */
function mayChooseGroup(word: Override, kind: ConfigKind): boolean {
  if (word.package !== undefined || word.key.includes('/')) return true;
  const place = placeOf(schemas[kind], word.path);
  return place === null ? word.path.length === 1 : childrenOf(place.schema) !== null;
}

function overrideAssignments(word: Override, choices: GroupChoices): Assignment[] {
  const source: Source = { kind: 'command line', word: word.source };
  const groupName = word.package === undefined ? word.key : `${word.key}@${word.package}`;
  if (choices.used.has(groupName)) return [];
  if (word.package !== undefined) {
    const option = typeof word.value === 'string' ? builtinAssignments(word.value) : null;
    if (option === null) {
      throw new UserError(
        `${word.source}: no config file offers the group ${groupName}, and ${String(word.value)} is not built in`,
      );
    }
    return option.map((assignment) => ({
      ...assignment,
      path: [...word.package!.split('.'), ...assignment.path],
      source,
    }));
  }
  if (word.operation === 'remove') {
    return [
      {
        path: word.path,
        value: word.value,
        source,
        remove: true,
        ...(word.rawValue === undefined ? {} : { raw: word.rawValue }),
      },
    ];
  }
  return [...flatten(word.value, source, word.path)].map((assignment) =>
    assignment.path.length === word.path.length && word.rawValue !== undefined
      ? { ...assignment, raw: unquoted(word.rawValue) }
      : assignment,
  );
}

const unquoted = (raw: string): string => /^(['"])(.*)\1$/s.exec(raw)?.[2] ?? raw;

export { describeSource };
