import { z } from 'zod';
import { defineTool } from '../define-tool.js';
import type { Tool } from '../types.js';

/** Lets the model check its answer. An answer that is no better than the best so far costs 0.05. */
export function gsm8kTool(): Tool {
  return defineTool({
    name: 'calc_gsm8k_reward',
    description: 'Checks a numeric answer and tells how good it is (1.0: correct, 0.0: incorrect)',
    input: z.object({ answer: z.string().describe('the answer, digits only') }),
    create: ({ kwargs, row }) => ({
      groundTruth: String(kwargs.ground_truth ?? row.reward_model?.ground_truth ?? ''),
      best: 0,
    }),
    execute: ({ answer }, { state }) => {
      const isCorrect = answer.trim() !== '' && normalize(answer) === normalize(state.groundTruth);
      const score = isCorrect ? 1 : 0;
      const reward = score > state.best ? 0 : -0.05;
      state.best = Math.max(state.best, score);
      return { text: `Current parsed answer='#### ${answer}' reward=${score.toFixed(1)}`, reward };
    },
    reward: ({ state }) => state.best,
  });
}

function normalize(answer: string): number | string {
  const text = answer.replace(/^.*####/s, '').replace(/[$,\s]/g, '');
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}
