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
let wasKey = false;
const stop = (signal: 'SIGINT' | 'SIGTERM'): void => {
  // The first lets a command save its state, the second one does not wait for it.
  if (interrupted.signal.aborted) process.exit(EXIT.interrupted);
  wasKey = signal === 'SIGINT';
  io.note(
    wasKey ? 'stopping; press Ctrl-C again to stop at once' : 'stopping, as SIGTERM asks; a second one stops at once',
  );
  interrupted.abort(new Error(`interrupted by ${wasKey ? 'Ctrl-C' : 'SIGTERM'}`));
};
// Schedulers and clouds announce the end with SIGTERM.
process.on('SIGINT', stop);
process.on('SIGTERM', stop);

const exitCode = await runCommandLine(process.argv.slice(2), { io, signal: interrupted.signal });
// A server that ends when it is told to has done well; a command that was cut short says so itself.
process.exitCode = wasKey ? EXIT.interrupted : exitCode;
