import { type Command, Option } from 'commander';
import { type ConfigKind, composeConfig, renderConfig, renderConfigJson, schemas } from '../../config/index.js';
import { jsonSchemaOf, renderExplanation, renderTemplate } from '../../config/reference.js';
import type { CommandInvocation, CommandModule } from '../command.js';
import { addConfigOptions, configLayers, printRemarks } from '../config-options.js';

export const command: CommandModule = {
  name: 'config',
  summary: 'Show the resolved configuration and where each value came from',

  configure(command: Command) {
    addConfigOptions(command)
      .addOption(new Option('--kind <kind>', 'which command it is for').choices(Object.keys(schemas)).default('ppo'))
      .option('--changed', 'leave out keys that have their default')
      .option(
        '--only <key>',
        'print only this key and what is below it; may be repeated',
        (key: string, keys?: string[]) => [...(keys ?? []), key],
      )
      .option('--explain <key>', 'print what a key (or each key of a group) means, takes and defaults to')
      .option('--json', 'print JSON: config, provenance, notices')
      .option('--template', 'print a commented YAML file with all defaults')
      .option('--schema', 'print a JSON Schema, for completion in editors')
      .addHelpText(
        'after',
        `
Examples:
  verlet config                                        all keys with their defaults
  verlet config --config run.yaml trainer.nnodes=2     a run as it would start, and who set what
  verlet config --changed algorithm.adv_estimator=grpo only what differs from the defaults
  verlet config --explain actor_rollout_ref.rollout    what the keys of a group mean
  verlet config --template > run.yaml                  a file to start from
  verlet config --kind sft --schema > sft.schema.json  completion in an editor`,
      );
  },

  async run({ args, options, io }: CommandInvocation) {
    const kind = options.kind as ConfigKind;
    if (typeof options.explain === 'string') {
      io.print(renderExplanation(kind, options.explain));
      return 0;
    }
    if (options.template === true) {
      io.print(renderTemplate(kind).trimEnd());
      return 0;
    }
    if (options.schema === true) {
      io.print(JSON.stringify(jsonSchemaOf(kind), null, 2));
      return 0;
    }
    const files = await configLayers(options);
    const composed = composeConfig({ kind, files, overrides: args, allowMissing: true });
    if (options.json === true) {
      io.print(renderConfigJson(composed));
      return 0;
    }
    const only = options.only as string[] | undefined;
    io.print(
      renderConfig(composed, { changedOnly: options.changed === true, ...(only === undefined ? {} : { only }) }),
    );
    printRemarks(kind, composed, io);
    return 0;
  },
};
