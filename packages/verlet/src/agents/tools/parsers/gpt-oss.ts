import { TurnCollector } from './calls.js';
import type { ToolParser } from './types.js';

/** Harmony: `<|channel|>commentary to=functions.NAME ...<|message|>JSON<|call|>`. Analysis never holds a call. */
export const gptOss: ToolParser = {
  name: 'gpt-oss',
  needsSpecialTokens: true,
  parse(text) {
    const turn = new TurnCollector();
    let content = '';
    for (const part of text.split('<|start|>assistant')) {
      const [header, ...rest] = part.split('<|message|>');
      if (header === undefined || rest.length === 0) {
        content += part.replace(/<\|[a-z_]+\|>/g, '');
        continue;
      }
      const [message = '', end] = rest.join('<|message|>').split(/(<\|end\|>|<\|call\|>|<\|return\|>)/);
      const channel = /<\|channel\|>(\w+)/.exec(header)?.[1];
      const tool = /to=functions\.([\w.-]+)/.exec(header)?.[1];
      if (channel === 'analysis') continue;
      if (!tool) content += message;
      else if (end === '<|call|>' || end === undefined) turn.addJson(tool, message, part);
      else turn.refuse(part, `the call of ${tool} ends with ${end} instead of <|call|>`);
    }
    return turn.turn(content);
  },
};
