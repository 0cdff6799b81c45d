import { existsSync } from 'node:fs';
import path from 'node:path';
import { type ServerType, serve } from '@hono/node-server';
import type { Command } from 'commander';
import { UserError } from '../../config/errors.js';
import { type CommandInvocation, type CommandModule, untilAborted } from '../command.js';
import { dashboardApp } from '../dashboard/app.js';
import { RunFiles } from '../dashboard/run-files.js';
import { port } from '../option-values.js';

export const command: CommandModule = {
  name: 'dashboard',
  summary: 'Show curves and trajectories of runs in the browser',

  configure(command: Command) {
    command
      .argument('<run...>', 'run folders (trainer.default_local_dir); several are drawn over one another')
      .option('--port <number>', 'port to listen on, 0 for a free one', port, 6180)
      .addHelpText(
        'after',
        `
Curves come from metrics.jsonl and follow a run that is going on. Trajectories, token by token, are there for runs with
trainer.rollout_data_dir (training) or trainer.validation_data_dir (validation). The page is served to this machine only;
from elsewhere: ssh -L 6180:127.0.0.1:6180 host

Examples:
  verlet dashboard checkpoints/verlet_examples/gsm8k
  verlet dashboard runs/a runs/b --port 0`,
      );
  },

  async run({ args, options, io, signal }: CommandInvocation) {
    const runs = args.map((folder) => {
      const full = path.resolve(folder);
      if (!existsSync(full)) throw new UserError(`there is no folder ${folder}; give the one that a run wrote`);
      if (!['metrics.jsonl', 'config.json'].some((file) => existsSync(path.join(full, file))))
        throw new UserError(`${folder} holds neither metrics.jsonl nor config.json, so it is not the folder of a run`);
      return new RunFiles(full, path.basename(full));
    });
    const hostname = '127.0.0.1';
    const app = dashboardApp(runs, { hosts: [hostname, 'localhost'] });
    const server = await new Promise<ServerType>((resolve, reject) => {
      const starting = serve({ fetch: app.fetch, hostname, port: options.port as number }, () => resolve(starting));
      starting.once('error', (error) => reject(new UserError(`cannot listen: ${error.message}; try --port 0`)));
    });
    const address = server.address();
    io.print(`http://${hostname}:${typeof address === 'object' && address ? address.port : options.port}/`);
    await untilAborted(signal);
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      if ('closeAllConnections' in server) server.closeAllConnections();
    });
  },
};
