#!/usr/bin/env node
// Trains the model behind an agent that talks to an OpenAI-compatible endpoint: every rollout has a base URL of its own.
import path from 'node:path';
import OpenAI from 'openai';
import { train } from 'verlet';
import { configFor, progress } from '../run-options.mjs';
import { prepare } from '../tool-agent/prepare.mjs';
import { settings } from '../tool-agent/run.mjs';
import { solve } from './agent.mjs';

/** @type {import('verlet').TrainedAgent} */
export const agent = async (row, { baseURL, apiKey, modelName }) => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
  const answer = await solve(client, modelName, row.prompt);
  return answer.trim() === `#### ${row.reward_model.ground_truth}` ? 1 : 0;
};

if (import.meta.filename === process.argv[1]) {
  const folder = path.resolve('runs/own-agent-openai');
  const files = await prepare(path.join(folder, 'start'), { onStep: progress() });
  const config = configFor(files, path.join(folder, 'run'), [...settings, ...process.argv.slice(2)]);
  await train({ config, agent });
}
