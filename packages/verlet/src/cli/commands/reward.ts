import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { UserError } from '../../config/errors.js';
import { openTable } from '../../data/index.js';
import {
  createRewardManager,
  describeTrial,
  inputFromRow,
  loadRewardFunction,
  type RewardInput,
} from '../../rewards/index.js';
import { type CommandContext, type CommandModule, EXIT } from '../command.js';
import { aboveZero, jsonObject, wholeNumber } from '../option-values.js';

interface TestFlags {
  data: string[];
  name?: string;
  kwargs?: Record<string, unknown>;
  dataSource?: string;
  responseKey?: string;
  manager: string;
  timeout: number;
  limit: number;
  extremes: number;
  output?: string;
  strict?: boolean;
}

export const command: CommandModule = {
  name: 'reward',
  summary: 'Try a reward function on a file of responses',
  configure(command: Command, context: CommandContext) {
    command
      .command('test')
      .description('score rows of a dataset or of saved rollouts; show the distribution, the extremes and the errors')
      .argument('[file]', 'the reward function: .ts, .js or .py (default: the built-in scores by data_source)')
      .requiredOption('--data <files...>', 'parquet, json or jsonl files')
      .option('--name <function>', 'the function in the file (default: compute_score)')
      .option('--kwargs <json>', 'reward_kwargs, a JSON object', jsonObject)
      .option('--data-source <name>', 'take this data_source for all rows')
      .option(
        '--response-key <column>',
        'the column to score (default: response, target_response, output ..., else the ground truth)',
      )
      .option('--manager <name>', 'naive, batch or prime (threads)', 'naive')
      .option('--timeout <seconds>', 'deadline of one call', aboveZero, 300)
      .option('--limit <rows>', 'score the first rows only', wholeNumber(1), 10_000)
      .option('--extremes <count>', 'how many of the lowest and highest rows to show', wholeNumber(1), 3)
      .option('-o, --output <file>', 'write every row with its score as JSON lines')
      .option('--strict', 'stop at the first error of the reward function')
      .action((file: string | undefined, flags: TestFlags) => test(file, flags, context));
  },
};

async function test(file: string | undefined, flags: TestFlags, { io, signal }: CommandContext): Promise<void> {
  const scorer = await loadRewardFunction(
    { path: file, name: flags.name, reward_kwargs: flags.kwargs },
    { timeout_s: flags.timeout },
  );
  // A function for batches is called as one, whatever the default says.
  const name = scorer.type === 'batch' && flags.manager === 'naive' ? 'batch' : flags.manager;
  const manager = createRewardManager(name, scorer, { timeout_s: flags.timeout, strict: flags.strict, warn: () => {} });
  try {
    const inputs = await readInputs(flags, signal);
    const results = await manager.score(inputs);
    if (flags.output) {
      const lines = results.map((result, index) => {
        const { solution_str, ground_truth, data_source } = inputs[index]!;
        return JSON.stringify({
          row: index,
          data_source,
          score: result.score,
          ...result.extras,
          error: result.error,
          solution_str,
          ground_truth,
        });
      });
      writeFileSync(flags.output, `${lines.join('\n')}\n`);
      io.note(`${lines.length} scored rows in ${flags.output}`);
    }
    io.print(describeTrial(inputs, results, { extremes: flags.extremes }));
    if (results.every((result) => result.error !== undefined)) {
      throw new UserError(`every reward failed; the first: ${results[0]!.error}`, { exitCode: EXIT.failed });
    }
  } finally {
    await manager.close();
  }
}

async function readInputs(flags: TestFlags, signal: AbortSignal): Promise<RewardInput[]> {
  const table = await openTable(flags.data);
  try {
    const inputs: RewardInput[] = [];
    const end = Math.min(flags.limit, table.numRows);
    for await (const row of table.rows(0, end)) {
      signal.throwIfAborted();
      const where = `row ${inputs.length} of ${flags.data.join(', ')}`;
      inputs.push(inputFromRow(row, where, { response_key: flags.responseKey, data_source: flags.dataSource }));
    }
    if (inputs.length === 0) throw new UserError(`${flags.data.join(', ')}: there are no rows to score`);
    return inputs;
  } finally {
    await table.close();
  }
}
