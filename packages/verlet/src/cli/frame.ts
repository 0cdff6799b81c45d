import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError } from 'commander';
import { nearest } from '../config/distance.js';
import { UserError } from '../config/errors.js';
import {
  COMMANDS,
  type CommandContext,
  type CommandEntry,
  type CommandModule,
  type CommandOutput,
  EXIT,
} from './command.js';

export interface FrameOptions {
  io: CommandOutput;
  commands?: readonly CommandEntry[];
  /** How a command's module is found; the default imports `./commands/<name>.js`. */
  load?: (name: string) => Promise<CommandModule>;
  environment?: Record<string, string | undefined>;
  signal?: AbortSignal;
}

/** Runs one command line (without `node verlet`) and resolves to its exit code. Never throws. */
export async function runCommandLine(words: readonly string[], options: FrameOptions): Promise<number> {
  const { io, commands = COMMANDS, load = loadCommand } = options;
  const beforeDashes = words.includes('--') ? words.slice(0, words.indexOf('--')) : words;
  const isVerbose = beforeDashes.includes('--verbose') || Boolean((options.environment ?? process.env).VERLET_DEBUG);
  try {
    const [first, ...rest] = words.filter((word, index) => !(word === '--verbose' && index === 0));
    if (first === undefined || first === '--help' || first === '-h' || (first === 'help' && rest.length === 0)) {
      io.print(overview(commands));
      return first === undefined ? EXIT.usage : EXIT.ok;
    }
    if (first === '--version' || first === '-V') {
      io.print(version());
      return EXIT.ok;
    }
    const [name, args] = first === 'help' ? [rest[0]!, ['--help']] : [first, rest];
    const entry = commands.find((candidate) => candidate.name === name);
    if (entry === undefined) throw new UserError(unknownCommand(name, commands), { exitCode: EXIT.usage });
    return await runCommand(await load(entry.name), entry, args, { ...options, isVerbose });
  } catch (error) {
    return reportError(error, io, isVerbose);
  }
}

async function runCommand(
  module: CommandModule,
  entry: CommandEntry,
  args: readonly string[],
  { io, isVerbose, signal }: FrameOptions & { isVerbose: boolean },
): Promise<number> {
  const command = new Command(`verlet ${entry.name}`);
  command
    .description(entry.summary)
    .exitOverride()
    .showHelpAfterError(`\`verlet ${entry.name} --help\` says what it takes.`)
    .configureOutput({ writeOut: (text) => io.print(text.trimEnd()), writeErr: (text) => io.note(text.trimEnd()) });
  const context: CommandContext = { io, isVerbose, signal: signal ?? new AbortController().signal };
  module.configure(command, context);
  // Known to commander so that `--verbose` after the command is not refused; the frame has read it already.
  for (const each of [command, ...command.commands]) {
    if (!each.options.some(({ long }) => long === '--verbose')) each.option('--verbose', 'print stacks of errors');
    if (each !== command) each.copyInheritedSettings(command);
  }
  let exitCode: number = EXIT.ok;
  const { run } = module;
  if (run !== undefined) {
    command.action(async () => {
      exitCode = (await run.call(module, { ...context, args: command.args, options: command.opts() })) ?? EXIT.ok;
    });
  }
  await command.parseAsync([...args], { from: 'user' });
  return exitCode;
}

function reportError(error: unknown, io: CommandOutput, isVerbose: boolean): number {
  // Commander has printed its message already.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  if (error instanceof UserError) {
    io.note(`verlet: ${error.message}`);
    if (isVerbose) io.note(stackOf(error));
    return error.exitCode;
  }
  io.note(
    `verlet: this is a defect of verlet, not of your input: ${error instanceof Error ? error.message : String(error)}`,
  );
  io.note(stackOf(error));
  return EXIT.internal;
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\ncaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}

async function loadCommand(name: string): Promise<CommandModule> {
  const url = new URL(`./commands/${name}.js`, import.meta.url);
  const file = fileURLToPath(url);
  // Looked up before the import, so that a missing dependency of a command is not taken for a missing command.
  if (!existsSync(file) && !existsSync(file.replace(/\.js$/, '.ts'))) {
    throw new UserError(`this build of verlet has no \`${name}\` command (${file} is not there)`);
  }
  const { command } = (await import(url.href)) as { command?: CommandModule };
  if (command === undefined) throw new Error(`${file} does not export \`command\``);
  return command;
}

function unknownCommand(name: string, commands: readonly CommandEntry[]): string {
  const near = nearest(
    name,
    commands.map((entry) => entry.name),
    1,
  );
  const hint = near.length > 0 ? `did you mean \`verlet ${near[0]}\`?` : '`verlet --help` lists them.';
  return `there is no command ${JSON.stringify(name)}; ${hint}`;
}

export function version(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}

function overview(commands: readonly CommandEntry[]): string {
  const width = Math.max(...commands.map(({ name }) => name.length));
  return `verlet ${version()}: reinforcement-learning post-training for language models and agents

Usage: verlet <command> [options] [key=value ...]

Commands:
${commands.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n')}

Settings are keys of one tree, with verl's names, given after the command:
  key.sub=value     set a key           trainer.total_epochs=3
  +key.sub=value    add a free key      +data.apply_chat_template_kwargs.enable_thinking=false
  ~key.sub          back to default     ~trainer.logger
  --config FILE     read a YAML file first; may be given several times

Examples:
  verlet train --config run.yaml actor_rollout_ref.actor.optim.lr=1e-6
  verlet train data.train_files=train.parquet actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B-Instruct --dry-run
  verlet config algorithm.adv_estimator=grpo --changed
  verlet config --explain actor_rollout_ref.rollout.n

Options:
  -h, --help        this page; \`verlet <command> --help\` for one command
  -V, --version     the version
  --verbose         print stacks of errors (also VERLET_DEBUG=1)

Exit codes: 0 done, 1 failed, 2 wrong command line or configuration, 70 a defect of verlet, 130 Ctrl-C.`;
}
