import { type Command, InvalidArgumentError, Option } from 'commander';
import { type CommandInvocation, type CommandModule, EXIT } from '../command.js';
import { addConfigOptions, configFromCommandLine } from '../config-options.js';

interface SftFlags {
  objective: 'sft' | 'dpo' | 'reward_model';
  promptKey?: string;
  chosenKey?: string;
  rejectedKey?: string;
  beta?: number;
  lossType?: 'sigmoid' | 'hinge' | 'ipo';
  labelSmoothing?: number;
  sftCoefficient?: number;
  centerRewards?: number;
}

export const command: CommandModule = {
  name: 'sft',
  summary: 'Fine-tune on prompts and responses, conversations, or pairs of answers',

  configure(command: Command) {
    addConfigOptions(command)
      .addOption(
        new Option('--objective <name>', 'what to learn: given answers, or from pairs a policy or a reward model')
          .choices(['sft', 'dpo', 'reward_model'])
          .default('sft'),
      )
      .option('--prompt-key <column>', 'pairs: column with the prompt (default: prompt)')
      .option('--chosen-key <column>', 'pairs: column with the better answer (default: chosen)')
      .option('--rejected-key <column>', 'pairs: column with the worse answer (default: rejected)')
      .option('--beta <number>', 'dpo: how closely to stay with the reference (default: 0.1)', number)
      .addOption(new Option('--loss-type <name>', 'dpo: form of the loss').choices(['sigmoid', 'hinge', 'ipo']))
      .option('--label-smoothing <share>', 'dpo: share of pairs taken to be the wrong way round', number)
      .option('--sft-coefficient <number>', 'dpo: weight of the likelihood of the better answer', number)
      .option('--center-rewards <number>', 'reward_model: weight that keeps scores around zero', number)
      .addHelpText(
        'after',
        `
Examples:
  verlet sft data.train_files=train.parquet model.partial_pretrain=./model
  verlet sft data.train_files=chats.jsonl data.multiturn.enable=true model.partial_pretrain=./model model.lora_rank=16
  verlet sft --objective dpo data.train_files=pairs.jsonl model.partial_pretrain=./model optim.lr=1e-6
  verlet sft --objective reward_model data.train_files=pairs.jsonl model.partial_pretrain=./model

Ctrl-C finishes the step, saves and stops; the same command goes on from there. The last step is always saved.`,
      );
  },

  async run(invocation: CommandInvocation) {
    const composed = await configFromCommandLine('sft', invocation);
    if (composed === null) return EXIT.ok;
    const { io, signal } = invocation;
    const flags = invocation.options as unknown as SftFlags;
    const options = { config: composed.config, signal, write: (line: string) => io.print(line) };
    const result = await runObjective(flags, options);
    if (result.interrupted) io.note(`stopped after step ${result.globalStep}; run the same command again to go on`);
    else if (result.checkpoint === null) io.note(`nothing to do: step ${result.globalStep} was reached before`);
    if (result.checkpoint) io.print(`model: ${result.checkpoint}/actor/huggingface`);
    return result.interrupted ? EXIT.interrupted : EXIT.ok;
  },
};

/** The trainers bring libtorch, which `verlet sft --help` should not wait for. */
async function runObjective(flags: SftFlags, options: import('../../trainer/sft/index.js').RunOptions) {
  const { objective } = flags;
  if (objective === 'sft') return (await import('../../trainer/sft/index.js')).sft(options);
  const given = {
    promptKey: flags.promptKey,
    chosenKey: flags.chosenKey,
    rejectedKey: flags.rejectedKey,
    beta: flags.beta,
    lossType: flags.lossType,
    labelSmoothing: flags.labelSmoothing,
    sftCoefficient: flags.sftCoefficient,
    centerRewardsCoefficient: flags.centerRewards,
  };
  const settings = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const { trainPreference } = await import('../../trainer/preference/index.js');
  return trainPreference({ ...options, preference: { objective, ...settings } });
}

function number(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('It must be a number.');
  return value;
}
