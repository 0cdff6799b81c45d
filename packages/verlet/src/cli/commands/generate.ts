import type { Command } from 'commander';
import { progressBar } from '../../data/index.js';
import { type CommandInvocation, type CommandModule, type CommandOutput, EXIT } from '../command.js';
import { addConfigOptions, configFromCommandLine } from '../config-options.js';

export const command: CommandModule = {
  name: 'generate',
  summary: 'Answer the prompts of a file',

  configure(command: Command) {
    addConfigOptions(command)
      .option('--overwrite', 'replace an output file that is there')
      .option('--restart', 'throw away the rows that an interrupted run finished')
      .addHelpText(
        'after',
        `
Examples:
  verlet generate model.path=./model data.path=test.parquet data.output_path=answers.parquet data.n_samples=4
  verlet generate model.path=checkpoints/gsm8k/run data.path=aime_2024.jsonl data.output_path=answers.jsonl \\
                  rollout.temperature=0.6 rollout.top_p=0.95 rollout.response_length=4096

Rows are written as they finish; after Ctrl-C or a crash the same command goes on. Files of GSM8K, MATH, MATH-500 and
AIME-2024 are read in the form in which they are published.`,
      );
  },

  async run(invocation: CommandInvocation) {
    const composed = await configFromCommandLine('generation', invocation);
    if (composed === null) return EXIT.ok;
    const { io, signal, options } = invocation;
    // Loaded late: it brings libtorch, which the help page should not wait for.
    const { generate } = await import('../../trainer/generate/index.js');
    const result = await generate({
      config: composed.config,
      signal,
      onProgress: progressOn(io, 'answering'),
      note: io.note,
      overwrite: options.overwrite === true,
      restart: options.restart === true,
    });
    if (result.interrupted) {
      io.note(`stopped after ${result.numRows} rows; run the same command again to go on`);
      return EXIT.interrupted;
    }
    const speed = result.numTokens > 0 ? `, ${Math.round(result.numTokens / result.seconds)} tokens/s` : '';
    io.print(`${result.numRows} rows in ${result.outputPath} (${result.numTokens} tokens${speed})`);
    return EXIT.ok;
  },
};

/** A bar in a terminal, else lines among the remarks. */
export function progressOn(io: CommandOutput, label: string): (done: number, total: number) => void {
  if (process.stderr.isTTY) return progressBar(label);
  return progressBar(label, { write: (text: string) => io.note(text.trimEnd()) });
}
