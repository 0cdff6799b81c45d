import { type ChatMessage, textOf } from '../types.js';
import type { Interaction, InteractionResponse } from './types.js';

interface Gsm8kInstance {
  groundTruth: string;
}

/** Checks a grade-school answer and says what is wrong with it: the number, or only how it was written. */
export const gsm8kInteraction: Interaction<Gsm8kInstance> = {
  name: 'gsm8k',
  start({ ground_truth, row }) {
    const truth = ground_truth ?? row.reward_model?.ground_truth;
    const number = lastNumber(String(truth ?? ''));
    if (number === undefined) {
      throw new Error(`interaction gsm8k needs a ground_truth with a number in it, got ${JSON.stringify(truth)}`);
    }
    return { groundTruth: number };
  },
  generateResponse: ({ groundTruth }, messages) => judgeGsm8k(lastAssistantText(messages), groundTruth),
};

/** The verdict on one answer. Correct and well written ends the conversation. */
export function judgeGsm8k(text: string, groundTruth: string): InteractionResponse {
  const final = /####\s*(-?[$\d][\d,.]*)/g;
  const written = [...text.matchAll(final)].at(-1)?.[1];
  const found = written === undefined ? lastNumber(text) : lastNumber(written);
  const isCorrect = found !== undefined && Number(found) === Number(groundTruth);
  const metrics = { format_ok: written === undefined ? 0 : 1, correct: isCorrect ? 1 : 0 };
  if (isCorrect && written !== undefined)
    return { terminate: true, text: 'Your response is correct!', score: 1, metrics };
  if (isCorrect) {
    const text =
      'The number is right, but the final answer must stand at the end as "#### <answer>". Write it that way.';
    return { terminate: false, text, score: 0, metrics };
  }
  const hint = written === undefined ? ' End with the final answer as "#### <answer>".' : '';
  const reply = `Your response is incorrect! You need to reflect on your answer and try again.${hint}`;
  return { terminate: false, text: reply, score: 0, metrics };
}

function lastAssistantText(messages: readonly ChatMessage[]): string {
  return textOf(messages.findLast(({ role }) => role === 'assistant')?.content ?? '');
}

function lastNumber(text: string): string | undefined {
  const number = text.match(/-?\d[\d,]*(?:\.\d+)?/g)?.at(-1);
  return number?.replaceAll(',', '');
}
