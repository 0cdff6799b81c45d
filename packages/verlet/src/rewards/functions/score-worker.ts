import { parentPort, workerData } from 'node:worker_threads';
import { loadRewardFunction } from './load.js';
import type { ScoreRequest, ScoreWorkerData } from './worker-scorer.js';

/** The inside of a scoring thread: loads the function once, then answers one request after the other. */
const { source, options } = workerData as ScoreWorkerData;
const scorer = loadRewardFunction({ ...(source === 'default' ? {} : source), reward_kwargs: options });

parentPort!.on('message', async ({ id, input }: ScoreRequest) => {
  try {
    parentPort!.postMessage({ id, result: await (await scorer).scoreOne(input) });
  } catch (error) {
    parentPort!.postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
});
scorer.then(
  () => parentPort!.postMessage({ ready: true }),
  (error: Error) => parentPort!.postMessage({ fatal: error.message }),
);
