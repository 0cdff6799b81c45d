import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CommandInvocation, CommandModule } from '../command.js';

interface ExportFlags {
  adapter?: string;
  base?: string;
  dtype?: 'float32' | 'bfloat16' | 'float16';
  maxShardSize: number;
  overwrite?: boolean;
}

export const command: CommandModule = {
  name: 'export',
  summary: 'Turn a checkpoint into a Hugging Face folder',

  configure(command: Command) {
    command
      .argument('<source>', 'a run, a checkpoint, an adapter or a model folder, or a name on the Hugging Face hub')
      .argument('<target>', 'folder to write')
      .option('--adapter <folder>', 'adapter to merge into the source, in PEFT format')
      .option('--base <model>', 'model that an adapter was made for, where its folder does not say')
      .addOption(
        new Option('--dtype <type>', 'precision of the weights (default: as they are)').choices([
          'float32',
          'bfloat16',
          'float16',
        ]),
      )
      .option('--max-shard-size <size>', 'largest weight file, as 500MB (default: 5GB)', bytes)
      .option('--overwrite', 'replace what stands at the target')
      .addHelpText(
        'after',
        `
Examples:
  verlet export checkpoints/gsm8k/run ./model --dtype bfloat16      the last checkpoint of a run
  verlet export checkpoints/gsm8k/run/global_step_100 ./model
  verlet export ./lora_adapter ./model                              adapter merged into its base`,
      );
  },

  async run({ args, options, io }: CommandInvocation) {
    const [source, target] = args as [string, string];
    const { adapter, base, dtype, maxShardSize: maxShardBytes, overwrite } = options as unknown as ExportFlags;
    // Loaded late: it brings libtorch, which the help page should not wait for.
    const { exportModel } = await import('../../trainer/export/index.js');
    const result = await exportModel({ source, target, adapter, base, dtype, maxShardBytes, overwrite });
    const weights = result.files.filter((file) => file.endsWith('.safetensors')).length;
    io.print(
      `${result.folder}: ${result.tensors} tensors, ${readable(result.bytes)} in ${weights} file${weights === 1 ? '' : 's'}` +
        `${result.merged ? ', adapter merged' : ''}`,
    );
  },
};

const UNITS: Record<string, number> = {
  '': 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
};

function bytes(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unit = UNITS[match?.[2]?.toUpperCase() ?? ''];
  const value = match && unit ? Number(match[1]) * unit : 0;
  if (!(value > 0)) throw new InvalidArgumentError('It must be a size such as 5GB, 500MB or 2GiB.');
  return Math.floor(value);
}

function readable(size: number): string {
  const unit = ['GB', 'MB', 'kB'].find((_, k) => size >= 10 ** (9 - 3 * k)) ?? 'B';
  const scale = { GB: 1e9, MB: 1e6, kB: 1e3, B: 1 }[unit as 'GB' | 'MB' | 'kB' | 'B'];
  return `${Number((size / scale).toPrecision(3))} ${unit}`;
}
