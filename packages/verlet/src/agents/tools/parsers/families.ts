/** Formats of further model families: GLM, MiniMax, Kimi, DeepSeek V4, Gemma 4. */
import { TurnCollector, valueOfJson } from './calls.js';
import type { ToolParser } from './types.js';

/** Everything before the calls, without the thinking that came first. */
function contentBefore(text: string, marker: string): { content: string; body: string } {
  const thought = text.lastIndexOf('</think>');
  const answer = thought < 0 ? text : text.slice(thought + '</think>'.length);
  const start = answer.indexOf(marker);
  return start < 0 ? { content: answer, body: '' } : { content: answer.slice(0, start), body: answer.slice(start) };
}

/** `<tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>` */
export const glm: ToolParser = {
  name: 'glm',
  parse(text) {
    const turn = new TurnCollector();
    const { content, body } = contentBefore(text, '<tool_call>');
    for (const [raw, inner = ''] of body.matchAll(/<tool_call>([\s\S]*?)(?:<\/tool_call>|$)/g)) {
      const name = /^\s*([^<\s]+)/.exec(inner)?.[1];
      if (!name) {
        turn.refuse(raw, 'the call names no function');
        continue;
      }
      const args: Record<string, unknown> = {};
      for (const [, key = '', value = ''] of inner.matchAll(
        /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g,
      )) {
        args[key.trim()] = valueOfJson(value);
      }
      turn.add(name, args);
    }
    return turn.turn(content);
  },
};

/** `<minimax:tool_call><invoke name="F"><parameter name="K">V</parameter></invoke></minimax:tool_call>` */
export const minimax: ToolParser = {
  name: 'minimax',
  parse(text) {
    const turn = new TurnCollector();
    const { content, body } = contentBefore(text, '<minimax:tool_call>');
    for (const [, name = '', inner = ''] of body.matchAll(/<invoke name="([^"]*)">([\s\S]*?)<\/invoke>/g)) {
      const args: Record<string, unknown> = {};
      for (const [, key = '', value = ''] of inner.matchAll(/<parameter name="([^"]*)">([\s\S]*?)<\/parameter>/g)) {
        args[key] = valueOfJson(value);
      }
      turn.add(name, args);
    }
    if (body !== '' && turn.calls.length === 0) turn.refuse(body, 'no complete <invoke name="...">...</invoke> inside');
    return turn.turn(content);
  },
};

/** `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>JSON<|tool_call_end|>`; the name is in the id. */
export const kimi: ToolParser = {
  name: 'kimi',
  needsSpecialTokens: true,
  parse(text) {
    const turn = new TurnCollector();
    const { content, body } = contentBefore(text, '<|tool_calls_section_begin|>');
    const pattern = /<\|tool_call_begin\|>([\s\S]*?)<\|tool_call_argument_begin\|>([\s\S]*?)<\|tool_call_end\|>/g;
    for (const [raw, id = '', json = ''] of body.matchAll(pattern)) {
      const name = /^(?:functions\.)?(.+?)(?::\d+)?$/.exec(id.trim())?.[1];
      if (name) turn.addJson(name, json, raw, id.trim());
      else turn.refuse(raw, 'the call names no function');
    }
    if (body !== '' && turn.calls.length + turn.malformed.length === 0)
      turn.refuse(body, 'no complete call in the section');
    return turn.turn(content);
  },
};

/** `<｜DSML｜invoke name="F"><｜DSML｜parameter name="K" string="true|false">V</｜DSML｜parameter></｜DSML｜invoke>` */
export const deepseekV4: ToolParser = {
  name: 'deepseek_v4',
  needsSpecialTokens: true,
  parse(text) {
    const turn = new TurnCollector();
    const { content, body } = contentBefore(text, '<｜DSML｜tool_calls>');
    for (const [, name = '', inner = ''] of body.matchAll(
      /<｜DSML｜invoke name="([^"]*)">([\s\S]*?)<\/｜DSML｜invoke>/g,
    )) {
      const args: Record<string, unknown> = {};
      const pattern = /<｜DSML｜parameter name="([^"]*)"(?: string="(true|false)")?>([\s\S]*?)<\/｜DSML｜parameter>/g;
      for (const [, key = '', isString, value = ''] of inner.matchAll(pattern)) {
        args[key] = isString === 'true' ? value : valueOfJson(value);
      }
      turn.add(name, args);
    }
    if (body !== '' && turn.calls.length === 0) turn.refuse(body, 'no complete invoke in the tool_calls block');
    return turn.turn(content.trim());
  },
};

/** `<|tool_call>call:F{a:<|"|>text<|"|>,b:3}<tool_call|>` */
export const gemma4: ToolParser = {
  name: 'gemma4',
  needsSpecialTokens: true,
  parse(text) {
    const turn = new TurnCollector();
    const content = text.replace(
      /<\|tool_call>call:([\w.-]+)\{([\s\S]*?)\}<tool_call\|>/g,
      (_, name: string, body: string) => {
        const args: Record<string, unknown> = {};
        for (const [, key = '', quoted, bare = ''] of body.matchAll(
          /([\w.-]+):(?:<\|"\|>([\s\S]*?)<\|"\|>|([^,]*))/g,
        )) {
          args[key] = quoted ?? valueOfJson(bare.trim());
        }
        turn.add(name, args);
        return '';
      },
    );
    return turn.turn(content);
  },
};
