import { isDeepStrictEqual } from 'node:util';
import type { RewardInput } from '../types.js';
import { answerText } from './text.js';

/** Tool-call rewards of ToolRL (RLLA): form of the reply plus how far the calls match, in [-3, 4]. */

export interface ToolCall {
  name: string;
  parameters: Record<string, unknown>;
}

/** Overlap of two multisets over their union. */
export function matchScore(left: readonly string[], right: readonly string[]): number {
  if (isDeepStrictEqual(left, right)) return 1;
  if (left.length === 0 || right.length === 0) return 0;
  const rest = [...right];
  let common = 0;
  for (const item of left) {
    const at = rest.indexOf(item);
    if (at < 0) continue;
    rest.splice(at, 1);
    common += 1;
  }
  return common / (left.length + right.length - common);
}

/** Names, parameter names and parameter values each earn points; the total is scaled into [min, max]. */
export function toolCallReward(expected: readonly ToolCall[], actual: readonly ToolCall[], max = 3, min = -3): number {
  if (isDeepStrictEqual(expected, actual)) return max;
  let score = matchScore(
    expected.map((call) => call.name),
    actual.map((call) => call.name),
  );
  let possible = 1;
  const used = new Set<number>();
  for (const wanted of expected) {
    possible += 1 + Object.keys(wanted.parameters).length;
    let best = 0;
    let bestIndex = -1;
    actual.forEach((call, index) => {
      if (used.has(index) || call.name !== wanted.name) return;
      const names = matchScore(Object.keys(wanted.parameters), Object.keys(call.parameters));
      const values = Object.entries(wanted.parameters).filter(
        ([key, value]) => key in call.parameters && isDeepStrictEqual(call.parameters[key], value),
      ).length;
      if (names + values > best) [best, bestIndex] = [names + values, index];
    });
    if (bestIndex >= 0) {
      used.add(bestIndex);
      score += best;
    }
  }
  return ((max - min) * score) / possible + min;
}

function readCalls(text: string): ToolCall[] {
  const body = text.split('<tool_call>')[1]!.split('</tool_call>')[0]!;
  return body
    .trim()
    .split('\n')
    .map((line) => {
      const call = JSON.parse(line) as ToolCall;
      if (typeof call?.name !== 'string' || typeof call.parameters !== 'object' || call.parameters === null) {
        throw new TypeError(`not a tool call: ${line}`);
      }
      return call;
    });
}

const once = (text: string, tag: string): boolean =>
  text.split(`<${tag}>`).length === 2 && text.split(`</${tag}>`).length === 2;

/** The reply has the parts that the reference has: thoughts, then calls, then a response. */
export function hasReferenceForm(reply: string, reference: string): boolean {
  const calls = reference.includes('<tool_call>');
  const responds = reference.includes('<response>');
  const form = ['<think>[\\s\\S]*?</think>'];
  if (calls) form.push('<tool_call>\\n[\\s\\S]*?\\n</tool_call>');
  if (responds) form.push('<response>[\\s\\S]*?</response>');
  return (
    new RegExp(`^${form.join('\\n')}$`).test(reply) &&
    (!calls || once(reply, 'tool_call')) &&
    (!responds || once(reply, 'response'))
  );
}

export function rlla(input: RewardInput): { score: number; format_score: number; correctness_score: number } {
  const reference = answerText(input.ground_truth);
  const reply = input.solution_str.trim();
  const format_score = hasReferenceForm(reply, reference) ? 1 : 0;
  let correctness_score = 0;
  if (reference.includes('<tool_call>')) {
    const expected = readCalls(reference); // a broken ground truth is an error of the data, not of the model
    correctness_score = -3;
    if (reply.includes('<tool_call>') && reply.includes('</tool_call>')) {
      try {
        correctness_score = toolCallReward(expected, readCalls(reply));
      } catch {
        correctness_score = -3;
      }
    }
  }
  return { score: format_score + correctness_score, format_score, correctness_score };
}
