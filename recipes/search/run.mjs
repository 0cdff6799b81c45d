#!/usr/bin/env node
// Search-R1 in small: a tiny model learns to look things up instead of making them up.
import path from 'node:path';
import { agents, train } from 'verlet';
import { configFor, progress } from '../run-options.mjs';
import { prepare } from './prepare.mjs';

export const settings = [
  'data.train_batch_size=16',
  'data.max_prompt_length=16',
  'data.max_response_length=72',
  'data.max_obs_length=40',
  'max_turns=2',
  'retriever.topk=1',
  'actor_rollout_ref.rollout.n=8',
  'actor_rollout_ref.actor.ppo_mini_batch_size=16',
  'actor_rollout_ref.actor.optim.lr=1e-3',
  'algorithm.adv_estimator=grpo',
  'trainer.total_training_steps=30',
  'trainer.test_freq=10',
  'trainer.save_freq=30',
];

/** BM25 over the corpus behind `POST /retrieve`, on a free port; what `verlet retriever serve CORPUS` does. */
export async function serve(corpus) {
  return agents.serveRetriever(await agents.Bm25Retriever.from(agents.readCorpus(corpus)), { port: 0 });
}

if (import.meta.filename === process.argv[1]) {
  const folder = path.resolve('runs/search');
  console.log('1/2  256 facts, a BM25 index, and a tiny Qwen2 that has seen what a search looks like');
  const files = await prepare(path.join(folder, 'start'), { onStep: progress() });
  const retriever = await serve(files.corpus);
  console.log(`2/2  GRPO with searches at ${retriever.url}`);
  const overrides = [...settings, `retriever.url=${retriever.url}`, ...process.argv.slice(2)];
  try {
    const { metrics } = await train({ config: configFor(files, path.join(folder, 'run'), overrides) });
    console.log(`searches per trajectory: ${metrics['env/number_of_valid_search/mean'].toFixed(2)}`);
  } finally {
    await retriever.close();
  }
}
