import { isRecord, TurnCollector } from './calls.js';
import type { ToolParser } from './types.js';

const PYTHON_TAG = '<|python_tag|>';

/**
 * Llama 3: the turn is the call, `{"name": ..., "parameters": {...}}`, perhaps behind `<|python_tag|>` and several
 * separated by `;` or newlines. `arguments` is taken as well. Text that does not start as JSON is an ordinary answer.
 */
export const llama3Json: ToolParser = {
  name: 'llama3_json',
  parse(text) {
    const turn = new TurnCollector();
    const tag = text.lastIndexOf(PYTHON_TAG);
    const body = (tag < 0 ? text : text.slice(tag + PYTHON_TAG.length)).trim();
    const content = tag < 0 ? '' : text.slice(0, tag);
    if (!body.startsWith('{')) return turn.turn(text.replaceAll(PYTHON_TAG, ''));

    for (const raw of jsonObjects(body)) {
      let value: unknown;
      try {
        value = JSON.parse(raw);
      } catch (error) {
        if (/"name"\s*:/.test(raw)) turn.refuse(raw, `the call is not valid JSON (${(error as Error).message})`);
        continue;
      }
      if (!isRecord(value) || typeof value.name !== 'string') continue;
      const args = value.parameters ?? value.arguments ?? {};
      if (isRecord(args)) turn.add(value.name, args);
      else turn.refuse(raw, 'the call has no "parameters" object');
    }
    const isCall = turn.calls.length > 0 || turn.malformed.length > 0;
    return turn.turn(isCall ? content : text);
  },
};

/** Splits `{...};{...}` at the braces outside of strings; an unfinished object comes last as it is. */
function* jsonObjects(text: string): Generator<string> {
  let depth = 0;
  let start = 0;
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (inString) {
      if (character === '\\') index++;
      else if (character === '"') inString = false;
    } else if (character === '"') inString = depth > 0;
    else if (character === '{' && depth++ === 0) start = index;
    else if (character === '}' && depth > 0 && --depth === 0) yield text.slice(start, index + 1);
  }
  if (depth > 0) yield text.slice(start);
}
