import { gsm8kInteraction, judgeGsm8k } from '../interactions/gsm8k.js';
import type { Task } from './types.js';

interface Gsm8kState {
  groundTruth: string;
  attempts: number;
  correct: boolean;
}

/** Grade-school maths in several attempts: a wrong answer gets feedback, a right one ends the task. */
export const gsm8kTask: Task<Gsm8kState> = {
  name: 'gsm8k',
  async start(row) {
    const { groundTruth } = await gsm8kInteraction.start({ ...row.interaction_kwargs, row });
    return { state: { groundTruth, attempts: 0, correct: false } };
  },
  observe(state, turn) {
    const verdict = judgeGsm8k(turn.text, state.groundTruth);
    state.attempts++;
    state.correct = verdict.metrics?.correct === 1;
    const metrics = { ...verdict.metrics, attempts: state.attempts };
    if (verdict.terminate) return { done: true, metrics };
    return { messages: [{ role: 'user', content: verdict.text }], metrics };
  },
  end: ({ correct }) => ({ reward: correct ? 1 : 0 }),
};
