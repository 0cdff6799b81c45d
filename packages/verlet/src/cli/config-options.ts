import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import {
  batchPlan,
  type Composed,
  type ConfigKind,
  type ConfigLayer,
  type ConfigOf,
  composeConfig,
  expandHome,
  importModule,
  type PpoConfig,
  renderBatchPlan,
  renderConfig,
  UserError,
} from '../config/index.js';
import type { CommandInvocation, CommandOutput } from './command.js';

/** The options of every command that takes a configuration. */
export function addConfigOptions(command: Command): Command {
  return command
    .argument('[settings...]', 'key=value, +key=value, ++key=value, ~key')
    .option(
      '--config <file>',
      'YAML, JSON, JavaScript or TypeScript file (or a built-in name such as ppo_trainer); several are merged in order',
      (file: string, files: string[] | undefined) => [...(files ?? []), file],
    )
    .option('--config-path <folder>', "Hydra's way to name a file: its folder")
    .option('--config-name <name>', "Hydra's way to name a file: its name, with or without .yaml")
    .option('--dry-run', 'print the resolved configuration and stop');
}

/**
 * The configuration of a command line. With `--dry-run` it is printed and the result is null: the command should end.
 *
 * ```ts
 * const composed = await configFromCommandLine('ppo', invocation);
 * if (composed === null) return;
 * ```
 */
export async function configFromCommandLine<K extends ConfigKind>(
  kind: K,
  { args, options, io }: Pick<CommandInvocation, 'args' | 'options' | 'io'>,
): Promise<Composed<ConfigOf<K>> | null> {
  const files = await configLayers(options);
  const isDryRun = options.dryRun === true;
  const composed = composeConfig({ kind, files, overrides: args, allowMissing: isDryRun });
  if (!isDryRun) {
    for (const notice of composed.notices) io.note(notice);
    return composed;
  }
  io.print(renderConfig(composed));
  printRemarks(kind, composed, io);
  return null;
}

/** What follows a printed tree: notices, the batch plan, and what is still to be given. */
export function printRemarks<K extends ConfigKind>(kind: K, composed: Composed<ConfigOf<K>>, io: CommandOutput): void {
  for (const notice of composed.notices) io.note(notice);
  if (kind === 'ppo') io.note(renderBatchPlan(batchPlan(composed.config as PpoConfig)));
  if (composed.missing.length > 0) io.note(`still to be given: ${composed.missing.join(', ')}`);
}

/** The files that the options name, in the order they are merged. */
export function configLayers(options: Record<string, unknown>): Promise<(string | ConfigLayer)[]> {
  const {
    config = [],
    configPath,
    configName,
  } = options as { config?: string[]; configPath?: string; configName?: string };
  if (configPath !== undefined && configName === undefined) {
    throw new UserError('--config-path needs --config-name; or name the file with --config', { exitCode: 2 });
  }
  const file = configName === undefined || /\.(ya?ml|json)$/.test(configName) ? configName : `${configName}.yaml`;
  const hydra = file === undefined ? [] : [configPath === undefined ? file : join(configPath, file)];
  return Promise.all([...hydra, ...config].map(loadLayer));
}

/** YAML and names are read by `composeConfig`; modules have to be imported first. */
export async function loadLayer(file: string): Promise<string | ConfigLayer> {
  if (!/\.[cm]?[jt]s$/.test(file)) return file;
  const path = resolve(expandHome(file));
  if (!existsSync(path)) throw new UserError(`config file ${file} does not exist`, { exitCode: 2 });
  try {
    const module = (await importModule(path)) as { default?: unknown };
    return { name: file, value: module.default };
  } catch (error) {
    const { message } = error as Error;
    throw new UserError(`config file ${file} could not be loaded: ${message}`, { cause: error, exitCode: 2 });
  }
}
