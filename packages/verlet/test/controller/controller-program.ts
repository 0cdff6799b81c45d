/** A controller of its own process, to be killed: starts ranks, prints their numbers, and leaves them stuck in a call. */
import { launchGroup } from '../../src/controller/index.js';
import { ScriptedWorker } from './scripted-worker.js';

const group = await launchGroup(ScriptedWorker, {
  config: { name: 'x' },
  launcher: 'process',
  worldSize: 2,
  timeoutSeconds: 600,
});
const ranks = await group.describe();
setTimeout(() => console.log(JSON.stringify(ranks.map(({ pid }) => pid))), 300);
if (process.argv[2] === 'stuck') await group.hangInCollective(1);
else await new Promise((resolve) => setTimeout(resolve, 600_000));
