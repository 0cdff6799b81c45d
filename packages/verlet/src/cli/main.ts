#!/usr/bin/env node
import { type CommandOutput, EXIT } from './command.js';
import { runCommandLine } from './frame.js';

/** The `verlet` executable: wires the frame to this process. */
const io: CommandOutput = {
  print: (text) => process.stdout.write(`${text}\n`),
  note: (text) => process.stderr.write(`${text}\n`),
};

// `verlet config | head` closes the pipe early; that is not an error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.ok);
  throw error;
});

const interrupted = new AbortController();
process.on('SIGINT', () => {
  // The first Ctrl-C lets a command save its state, the second one does not wait for it.
  if (interrupted.signal.aborted) process.exit(EXIT.interrupted);
  io.note('stopping; press Ctrl-C again to stop at once');
  interrupted.abort(new Error('interrupted by Ctrl-C'));
});

const exitCode = await runCommandLine(process.argv.slice(2), { io, signal: interrupted.signal });
process.exitCode = interrupted.signal.aborted ? EXIT.interrupted : exitCode;
