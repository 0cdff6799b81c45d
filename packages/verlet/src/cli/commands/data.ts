import type { Command } from 'commander';
import {
  type ConvertReport,
  convertConversations,
  inspectData,
  openTable,
  PREPARERS,
  prepareRows,
  type Row,
  writeParquet,
} from '../../data/index.js';
import { type DownloadProgress, resolveModel } from '../../models/hub/index.js';
import { Tokenizer } from '../../models/tokenizer/index.js';
import type { CommandContext, CommandModule } from '../command.js';
import { wholeNumber } from '../option-values.js';

interface ConvertFlags {
  output: string;
  dataSource?: string;
  ability?: string;
  split: string;
  storyMarker?: string;
  outputFormatMarker?: string;
  skipBad?: boolean;
}

interface PrepareFlags {
  output: string;
  split: string;
  instruction?: string;
  system?: string;
  dataSource?: string;
  agentName?: string;
}

interface InspectFlags {
  row: number;
  promptKey?: string;
  model?: string;
}

export const command: CommandModule = {
  name: 'data',
  summary: 'Convert and inspect datasets',
  configure(command: Command, context: CommandContext) {
    command
      .command('inspect')
      .description('show schema, rows, one row as a chat and a histogram of prompt lengths')
      .argument('<files...>', 'parquet, json or jsonl files, folders, globs or hf://datasets/... paths')
      .option('--row <number>', 'the row to show', wholeNumber(0), 0)
      .option('--prompt-key <column>', 'the column with the prompt')
      .option('--model <name>', 'measure in tokens of this model, with its chat template')
      .action((files: string[], flags: InspectFlags) => inspect(files, flags, context));
    command
      .command('convert')
      .description('conversations (system + conversations, ShareGPT, OpenAI messages) to one row per assistant turn')
      .argument('<files...>', 'json, jsonl or parquet files')
      .requiredOption('-o, --output <file>', 'parquet file to write')
      .option('--data-source <name>', 'value of data_source, which picks the reward')
      .option('--ability <name>', 'value of ability')
      .option('--split <name>', 'value of extra_info.split', 'train')
      .option('--story-marker <text>', 'where story_content begins inside the system text')
      .option('--output-format-marker <text>', 'where output_format begins inside the system text')
      .option('--skip-bad', 'leave out conversations that cannot be used and list them')
      .action((files: string[], flags: ConvertFlags) => convert(files, flags, context));
    const prepare = command.command('prepare').description('a published data set to training rows');
    for (const [name, { description, fields }] of Object.entries(PREPARERS)) {
      prepare
        .command(name)
        .description(`${description}; reads ${fields}`)
        .argument('<files...>', 'files in the published format')
        .requiredOption('-o, --output <file>', 'parquet file to write')
        .option('--split <name>', 'value of extra_info.split', 'train')
        .option('--instruction <text>', 'what is put beside the question')
        .option('--system <text>', 'a system message')
        .option('--data-source <name>', 'value of data_source, which picks the reward')
        .option('--agent-name <name>', 'value of agent_name, which picks the agent loop')
        .copyInheritedSettings(command)
        .action((files: string[], flags: PrepareFlags) => prepareFiles(name, files, flags, context));
    }
  },
};

async function inspect(files: string[], flags: InspectFlags, { io }: CommandContext): Promise<void> {
  const table = await openTable(files, { onProgress: downloadBar(io.note) });
  try {
    const tokenizer = flags.model
      ? await Tokenizer.load(await resolveModel(flags.model, { onProgress: downloadBar(io.note) }))
      : undefined;
    io.print((await inspectData(table, { row: flags.row, promptKey: flags.promptKey, tokenizer })).trimEnd());
  } finally {
    await table.close();
  }
}

async function convert(files: string[], flags: ConvertFlags, { io }: CommandContext): Promise<void> {
  const table = await openTable(files, { onProgress: downloadBar(io.note) });
  try {
    const report: ConvertReport = { conversations: 0, samples: 0, unprompted: 0, skipped: [] };
    await writeRows(flags.output, convertConversations(table, report, flags));
    for (const problem of report.skipped) io.note(`left out: ${problem}`);
    const remarks = [
      report.unprompted > 0 ? `${report.unprompted} assistant turns that answer nobody are history only` : '',
      report.skipped.length > 0 ? `${report.skipped.length} conversations left out` : '',
    ].filter((remark) => remark !== '');
    io.print(
      [`${report.samples} rows from ${report.conversations} conversations in ${flags.output}`, ...remarks].join('; '),
    );
  } finally {
    await table.close();
  }
}

async function prepareFiles(name: string, files: string[], flags: PrepareFlags, { io }: CommandContext): Promise<void> {
  const table = await openTable(files, { onProgress: downloadBar(io.note) });
  try {
    const { numRows } = await writeRows(flags.output, prepareRows(table, name, flags));
    io.print(`${numRows} rows in ${flags.output}`);
  } finally {
    await table.close();
  }
}

function writeRows(path: string, rows: AsyncIterable<Row>) {
  return writeParquet(path, rows, { mixed: 'json' });
}

/** A line per tenth of a file: readable in a terminal and in a log. */
function downloadBar(note: (text: string) => void): (progress: DownloadProgress) => void {
  const shown = new Map<string, number>();
  return ({ file, receivedBytes, totalBytes }) => {
    if (!totalBytes || totalBytes < 1e6) return;
    const tenth = Math.floor((10 * receivedBytes) / totalBytes);
    if (shown.get(file) === tenth) return;
    shown.set(file, tenth);
    note(`${file}: ${tenth * 10}% of ${(totalBytes / 1e6).toFixed(0)} MB`);
  };
}
