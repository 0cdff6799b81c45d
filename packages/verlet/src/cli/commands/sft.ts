import { type Command, Option } from 'commander';
import { OBJECTIVES } from '../../config/schema/sft.js';
import { type CommandInvocation, type CommandModule, EXIT } from '../command.js';
import { addConfigOptions, configFromCommandLine } from '../config-options.js';

export const command: CommandModule = {
  name: 'sft',
  summary: 'Fine-tune on answers, conversations, or pairs of answers (SFT, DPO, reward models)',

  configure(command: Command) {
    addConfigOptions(command)
      .addOption(
        new Option('--objective <name>', 'short for objective.name=NAME: what to learn').choices([...OBJECTIVES]),
      )
      .addHelpText(
        'after',
        `
Examples:
  verlet sft data.train_files=train.parquet model.partial_pretrain=./model
  verlet sft data.train_files=chats.jsonl data.multiturn.enable=true model.partial_pretrain=./model model.lora_rank=16
  verlet sft objective.name=dpo objective.beta=0.1 data.train_files=pairs.jsonl model.partial_pretrain=./model optim.lr=1e-6
  verlet sft objective.name=reward_model data.train_files=pairs.jsonl model.partial_pretrain=./model

Rows have columns question and answer (data.prompt_key, data.response_key), or messages with data.multiturn.enable=true; pairs
have prompt, chosen and rejected (objective.prompt_key ...). \`verlet config --kind sft --template\` lists every key.
Ctrl-C finishes the step, saves and stops; the same command goes on from there. The last step is always saved.`,
      );
  },

  async run(invocation: CommandInvocation) {
    const { io, signal, options } = invocation;
    const words = options.objective === undefined ? [] : [`objective.name=${String(options.objective)}`];
    const composed = await configFromCommandLine('sft', { ...invocation, args: [...invocation.args, ...words] });
    if (composed === null) return EXIT.ok;
    const { config } = composed;
    // Loaded late: the trainers bring libtorch, which the help page should not wait for.
    const run =
      config.objective.name === 'sft'
        ? (await import('../../trainer/sft/index.js')).sft
        : (await import('../../trainer/preference/index.js')).trainPreference;
    const result = await run({ config, signal, write: (line: string) => io.print(line) }).catch(
      async (error: unknown) => {
        const { explained } = await import('../worker-failure.js');
        throw explained(error, config.trainer.default_local_dir);
      },
    );
    if (result.interrupted) io.note(`stopped after step ${result.globalStep}; run the same command again to go on`);
    else if (result.checkpoint === null) io.note(`nothing to do: step ${result.globalStep} was reached before`);
    if (result.checkpoint) io.print(`model: ${result.checkpoint}/actor/huggingface`);
    return result.interrupted ? EXIT.interrupted : EXIT.ok;
  },
};
