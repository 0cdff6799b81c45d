#!/usr/bin/env node
// Trains the model behind an AI SDK agent: the agent runs once per sample, and what it returns here is the reward.
import path from 'node:path';
import { train } from 'verlet';
import { configFor, progress } from '../run-options.mjs';
import { prepare } from '../tool-agent/prepare.mjs';
import { settings } from '../tool-agent/run.mjs';
import { solve } from './agent.mjs';

/** @type {import('verlet').TrainedAgent} */
export const agent = async (row, { model, signal }) => {
  const answer = await solve(model, row.prompt, signal);
  return answer.trim() === `#### ${row.reward_model.ground_truth}` ? 1 : 0;
};

if (import.meta.filename === process.argv[1]) {
  const folder = path.resolve('runs/own-agent-ai-sdk');
  const files = await prepare(path.join(folder, 'start'), { onStep: progress() });
  const config = configFor(files, path.join(folder, 'run'), [...settings, ...process.argv.slice(2)]);
  await train({ config, agent });
}
