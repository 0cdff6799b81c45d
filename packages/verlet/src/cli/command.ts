import type { Command } from 'commander';

/**
 * What a file in `commands/` exports as `command`. The frame (`main.ts`) loads only the module that was asked for,
 * so that `verlet --help` starts at once and one broken command does not take the others down.
 */
export interface CommandModule {
  name: string;
  /** One line for `verlet --help`. */
  summary: string;
  /**
   * Declares arguments, options and help text; `--verbose` and `--help` are added by the frame. A command with
   * subcommands adds them here (`command.command('serve').action(...)`) and leaves out `run`.
   */
  configure(command: Command, context: CommandContext): void;
  /** Does the work. Resolves to an exit code; nothing is 0. Mistakes of the user are thrown as `UserError`. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a command that ends well need not say so
  run?(invocation: CommandInvocation): Promise<number | void>;
}

export interface CommandInvocation extends CommandContext {
  /** Positional arguments, for most commands `key=value` words. */
  args: string[];
  options: Record<string, unknown>;
}

/** What a command may use of the process it runs in. */
export interface CommandContext {
  io: CommandOutput;
  isVerbose: boolean;
  /** Aborted by the first Ctrl-C or SIGTERM; a second one ends the process. */
  signal: AbortSignal;
}

export interface CommandOutput {
  /** Results: what a pipe should receive. Adds the newline. */
  print(text: string): void;
  /** Remarks and errors. Adds the newline. */
  note(text: string): void;
}

/** Exit codes a script can rely on. */
export const EXIT = {
  ok: 0,
  /** The work failed for a reason that the message says. */
  failed: 1,
  /** Wrong command line or configuration; nothing was started. */
  usage: 2,
  /** A defect of the program; the stack is printed. */
  internal: 70,
  /** Ended by Ctrl-C. */
  interrupted: 130,
} as const;

export interface CommandEntry {
  name: string;
  summary: string;
}

/** Every command there is. The module of `name` is `commands/<name>.ts`. */
export const COMMANDS: readonly CommandEntry[] = [
  { name: 'init', summary: 'Start a project of your own: reward, tool, configuration, test' },
  { name: 'train', summary: 'Train with reinforcement learning: PPO, GRPO and their kin' },
  { name: 'sft', summary: 'Fine-tune on answers, conversations or pairs: SFT, DPO, reward models' },
  { name: 'generate', summary: 'Answer the prompts of a file' },
  { name: 'eval', summary: 'Score the responses of a file, by data source' },
  { name: 'serve', summary: 'Serve a model with an OpenAI-compatible API' },
  { name: 'chat', summary: 'Talk to a model in the terminal' },
  { name: 'export', summary: 'Turn a checkpoint into a Hugging Face folder' },
  { name: 'data', summary: 'Convert and inspect datasets' },
  { name: 'reward', summary: 'Try a reward function on a file of responses' },
  { name: 'retriever', summary: 'Serve a search index to search agents' },
  { name: 'config', summary: 'Show the resolved configuration and where each value came from' },
  { name: 'dashboard', summary: 'Show curves and trajectories of runs in the browser' },
  { name: 'doctor', summary: 'Check this machine: libtorch, GPU, sandbox, tools' },
];

/** What a server waits for. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
    if (signal.aborted) resolve();
  });
}
