import { parameterType, TurnCollector, valueOfJson, valueOfType } from './calls.js';
import type { ToolParser } from './types.js';

/** `<function=NAME><parameter=KEY>VALUE</parameter></function>` inside an outer tag. */
function functionXml(name: string, outer: string, typed: boolean): ToolParser {
  return {
    name,
    parse(text, tools) {
      const turn = new TurnCollector();
      const start = text.indexOf(`<${outer}>`);
      const content = start < 0 ? text : text.slice(0, start);
      const body = start < 0 ? '' : text.slice(start);
      let functions = 0;
      for (const [raw, tool = '', inner = ''] of body.matchAll(
        /<function=([^>]*)>([\s\S]*?)(?:<\/function>|(?=<function=)|$)/g,
      )) {
        functions++;
        if (tool.trim() === '') {
          turn.refuse(raw, 'the call names no function');
          continue;
        }
        const args: Record<string, unknown> = {};
        // A parameter without its closing tag was cut off by the length limit: half a value is worse than none.
        for (const [, key = '', value = ''] of inner.matchAll(/<parameter=([^>]*)>([\s\S]*?)<\/parameter>/g)) {
          const trimmed = value.replace(/^\n/, '').replace(/\n$/, '');
          args[key.trim()] = typed
            ? valueOfType(trimmed, parameterType(tools, tool.trim(), key.trim()) ?? 'string')
            : valueOfJson(trimmed);
        }
        turn.add(tool.trim(), args);
      }
      if (start >= 0 && functions === 0) turn.refuse(body, `<${outer}> holds no <function=...>`);
      return turn.turn(content);
    },
  };
}

/** Qwen3-Coder: values take the types of the tool's schema. */
export const qwen3Coder = functionXml('qwen3_coder', 'tool_call', true);

/** Seed-OSS: the same inside `<seed:tool_call>`, values are JSON where they parse. */
export const seed = functionXml('seed', 'seed:tool_call', false);
