import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { composeConfig, type EvaluationConfig, type GenerationConfig } from '../../config/index.js';
import { type CommandInvocation, type CommandModule, EXIT } from '../command.js';
import { addConfigOptions, configFromCommandLine } from '../config-options.js';
import { aboveZero, anyNumber } from '../option-values.js';
import { progressOn } from './generate.js';

interface EvalFlags {
  model?: string;
  responses?: string;
  passThreshold: number;
  timeout: number;
  json?: boolean;
}

export const command: CommandModule = {
  name: 'eval',
  summary: 'Score the responses of a file, by data source',

  configure(command: Command) {
    addConfigOptions(command)
      .option('--model <model>', 'generate the responses first, with this model; settings of `verlet generate` apply')
      .option('--responses <file>', 'keep what --model generated in this .parquet or .jsonl file')
      .option(
        '--pass-threshold <score>',
        'score from which a response is correct, where rewards give no acc',
        anyNumber,
        1,
      )
      .option('--timeout <seconds>', 'deadline of one call of the reward function', aboveZero, 300)
      .option('--json', 'print metrics as JSON')
      .addHelpText(
        'after',
        `
Examples:
  verlet eval data.path=answers.parquet
  verlet eval data.path=answers.parquet custom_reward_function.path=./reward.ts data.output_path=scores.jsonl
  verlet eval --model checkpoints/gsm8k/run data.path=gsm8k_test.parquet rollout.temperature=0
  verlet eval --model ./model data.path=aime_2024.jsonl data.n_samples=16 rollout.temperature=0.6

mean@n is the mean score, pass@k the chance that one of k responses is correct, maj@k that a vote among k is. Files of
GSM8K, MATH, MATH-500 and AIME-2024 are read in the form in which they are published.`,
      );
  },

  async run(invocation: CommandInvocation) {
    const flags = invocation.options as unknown as EvalFlags;
    const words = split(invocation.args, flags.model !== undefined);
    const composed = await configFromCommandLine('evaluation', { ...invocation, args: words.evaluation });
    if (composed === null) return EXIT.ok;
    const { io, signal } = invocation;
    let { config } = composed;
    let temporary: string | null = null;
    try {
      if (flags.model !== undefined) {
        if (!flags.responses) temporary = join(tmpdir(), `verlet-eval-${process.pid}-${Date.now()}.jsonl`);
        const output = flags.responses ?? temporary!;
        const isDone = await respond(invocation, generationOf(words.generation, flags.model, config, output));
        if (!isDone) return EXIT.interrupted;
        config = { ...config, data: { ...config.data, path: output } };
      }
      const { evaluate, describeEvaluation } = await import('../../trainer/evaluate/index.js');
      const result = await evaluate({
        config,
        passThreshold: flags.passThreshold,
        timeoutSeconds: flags.timeout,
        signal,
        onProgress: progressOn(io, 'scoring'),
        note: io.note,
      });
      io.print(flags.json ? JSON.stringify(result, null, 2) : describeEvaluation(result));
      if (config.data.output_path) io.note(`scores row by row in ${config.data.output_path}`);
      return EXIT.ok;
    } finally {
      if (temporary) for (const file of [temporary, `${temporary}.partial.jsonl`]) await rm(file, { force: true });
    }
  },
};

/** Settings that say how to generate; the others are about scoring. */
const GENERATION_KEYS = /^[+~]*(rollout\.|model\.|trainer\.|data\.(n_samples|batch_size|apply_chat_template_kwargs))/;

function split(args: readonly string[], generates: boolean): { generation: string[]; evaluation: string[] } {
  if (!generates) return { generation: [], evaluation: [...args] };
  return {
    generation: args.filter((word) => GENERATION_KEYS.test(word)),
    evaluation: args.filter((word) => !GENERATION_KEYS.test(word)),
  };
}

function generationOf(
  overrides: readonly string[],
  model: string,
  { data }: EvaluationConfig,
  output: string,
): GenerationConfig {
  // One response per prompt, unless more are asked for; the rest of the defaults are those of `verlet generate`.
  const object = {
    model: { path: model },
    data: {
      path: data.path,
      output_path: output,
      prompt_key: data.prompt_key,
      response_key: data.response_key,
      n_samples: 1,
    },
  };
  return composeConfig({ kind: 'generation', object, overrides: [...overrides] }).config;
}

async function respond({ io, signal }: CommandInvocation, config: GenerationConfig): Promise<boolean> {
  // Loaded late: it brings libtorch, which the help page should not wait for.
  const { generate } = await import('../../trainer/generate/index.js');
  const result = await generate({
    config,
    signal,
    onProgress: progressOn(io, 'answering'),
    note: io.note,
  });
  if (result.interrupted) io.note(`stopped after ${result.numRows} responses`);
  return !result.interrupted;
}
