import { isRecord, TurnCollector } from './calls.js';
import type { ToolParser } from './types.js';

const BLOCK = /<tool_call>([\s\S]*?)<\/tool_call>/g;

/** `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`: Hermes, Qwen2.5, Qwen3. */
export const hermes: ToolParser = {
  name: 'hermes',
  parse(text) {
    const turn = new TurnCollector();
    let content = text.replace(BLOCK, (raw, body: string) => {
      readCall(turn, raw, body);
      return '';
    });
    const open = content.indexOf('<tool_call>');
    if (open >= 0) {
      turn.refuse(content.slice(open), 'the call is cut off: </tool_call> is missing');
      content = content.slice(0, open);
    }
    return turn.turn(content);
  },
};

function readCall(turn: TurnCollector, raw: string, body: string): void {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (error) {
    turn.refuse(raw, `the call is not valid JSON (${(error as Error).message})`);
    return;
  }
  if (!isRecord(value) || typeof value.name !== 'string') turn.refuse(raw, 'the call has no "name"');
  else if (typeof value.arguments === 'string') turn.addJson(value.name, value.arguments, raw);
  else if (!isRecord(value.arguments)) turn.refuse(raw, 'the call has no "arguments" object');
  else turn.add(value.name, value.arguments);
}
