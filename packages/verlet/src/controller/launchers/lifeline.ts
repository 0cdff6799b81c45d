/**
 * A thread in every rank that holds a connection of its own to the controller. Training blocks the main thread for minutes, so
 * the thread sends the heartbeats, with a flag that tells waiting for peers from working; and when the connection closes, the
 * controller is gone and the thread ends the process, whatever the main thread is doing.
 */
import { Worker } from 'node:worker_threads';
import { parseAddress } from '../transport/index.js';

/** What the main thread lets the lifeline see. */
export class RankState {
  readonly cells = new Int32Array(new SharedArrayBuffer(4));

  setWaiting(waiting: boolean): void {
    Atomics.store(this.cells, 0, waiting ? 1 : 0);
  }
}

// Plain JavaScript in a string: the thread needs no module of ours, so it starts in milliseconds under any loader.
const script = `
const { workerData } = require('node:worker_threads');
const net = require('node:net');
const { address, hello, working, waiting, cells, intervalMs, graceMs } = workerData;
const socket = net.connect(address);
socket.on('connect', () => {
  socket.write(hello);
  setInterval(() => socket.write(Atomics.load(cells, 0) === 1 ? waiting : working), intervalMs);
});
socket.on('error', () => {});
socket.resume();
socket.on('close', () => setTimeout(() => process.kill(process.pid, 'SIGKILL'), graceMs));
`;

export interface LifelineOptions {
  address: string;
  /** Frames to send: who this is, and the two heartbeats. */
  hello: Uint8Array;
  working: Uint8Array;
  waiting: Uint8Array;
  state: RankState;
  intervalMs: number;
  /** How long the process may take to end by itself once the controller is gone. */
  graceMs: number;
}

export function startLifeline({ address: text, state, ...rest }: LifelineOptions): void {
  const address = parseAddress(text);
  const worker = new Worker(script, { eval: true, workerData: { ...rest, address, cells: state.cells }, execArgv: [] });
  worker.unref();
}
