import { formatFindings } from '@verlet/torch/doctor';
import { type CommandModule, EXIT } from '../command.js';
import { examineMachine } from './doctor-findings.js';

export const command: CommandModule = {
  name: 'doctor',
  summary: 'Check this machine: libtorch, GPU, sandbox, tools',

  configure(command) {
    command.option('--json', 'print the findings as JSON').addHelpText(
      'after',
      `
Prints one line per finding and, below it, what to do when something is wrong or could be better.
Exit code 1 when something will not work.`,
    );
  },

  async run({ io, options }) {
    const findings = await examineMachine();
    io.print(options.json ? JSON.stringify(findings, null, 2) : formatFindings(findings));
    return findings.some((finding) => finding.state === 'problem') ? EXIT.failed : EXIT.ok;
  },
};
