import type { ChatMessage } from '../../models/tokenizer/index.js';
import { DataError, type DataLocation, type Row, type Table } from '../table/index.js';
import { type Conversation, readConversation } from './conversation.js';

/** A training row: everything up to an assistant turn as the prompt, the turn itself as the target. */
export interface TurnSample extends Row {
  data_source: string;
  prompt: ChatMessage[];
  ability: string;
  reward_model: { style: string; ground_truth: string };
  target_response: string;
  extra_info: { split: string; index: number; conversation: number; turn: number; num_turns: number };
  /** `system_prompt = instruction + story_content + output_format`. */
  system_prompt: string;
  conversation_history: ChatMessage[];
  story_content: string;
  user_input: string;
  output_format: string;
}

export interface ConvertOptions {
  dataSource?: string;
  ability?: string;
  split?: string;
  rewardStyle?: string;
  /** Where the story begins inside the system text, when a row has no `story_content` of its own. */
  storyMarker?: string;
  /** Where the output format begins inside the system text, when a row has no `output_format` of its own. */
  outputFormatMarker?: string;
  /** Count and leave out conversations that cannot be used, instead of stopping at the first. */
  skipBad?: boolean;
}

export interface ConvertReport {
  conversations: number;
  samples: number;
  /** Assistant turns that nobody asked for: a greeting, or a second one in a row. They stay in the history. */
  unprompted: number;
  /** With `skipBad`: what was left out, and why. */
  skipped: string[];
}

/** Converts a table of conversations; `report` is filled while the samples are taken. */
export async function* convertConversations(
  table: Table,
  report: ConvertReport,
  options: ConvertOptions = {},
): AsyncGenerator<TurnSample> {
  let index = 0;
  for await (const row of table.rows()) {
    const where: DataLocation = table.locate(index);
    try {
      const { samples, unprompted } = samplesOf(
        row,
        where,
        { conversation: index, firstIndex: report.samples },
        options,
      );
      report.samples += samples.length;
      report.unprompted += unprompted;
      report.conversations++;
      yield* samples;
    } catch (error) {
      if (!options.skipBad || !(error instanceof DataError)) throw error;
      report.skipped.push(error.message);
    }
    index++;
  }
}

export function samplesOf(
  row: Row,
  where: DataLocation,
  { conversation, firstIndex }: { conversation: number; firstIndex: number },
  options: ConvertOptions = {},
): { samples: TurnSample[]; unprompted: number } {
  const parsed = readConversation(row, where);
  const system = systemParts(row, parsed, options);
  const turns = parsed.messages.flatMap((message, position) => (message.role === 'assistant' ? [position] : []));
  if (turns.length === 0) throw new DataError('nobody answers: there is no assistant turn', where);
  const samples: TurnSample[] = [];
  let unprompted = 0;
  turns.forEach((position, turn) => {
    const before = parsed.messages.slice(0, position);
    const asked = before.at(-1);
    if (!asked || asked.role === 'assistant') {
      unprompted++;
      return;
    }
    const target = targetText(parsed.messages[position] as ChatMessage);
    const sample: TurnSample = {
      data_source: options.dataSource ?? 'conversation',
      prompt: system.whole === '' ? before : [{ role: 'system', content: system.whole }, ...before],
      ability: options.ability ?? 'chat',
      reward_model: { style: options.rewardStyle ?? 'rule', ground_truth: target },
      target_response: target,
      extra_info: {
        split: options.split ?? 'train',
        index: firstIndex + samples.length,
        conversation,
        turn,
        num_turns: turns.length,
      },
      system_prompt: system.whole,
      conversation_history: before.slice(0, -1),
      story_content: system.story,
      user_input: String(asked.content),
      output_format: system.outputFormat,
    };
    samples.push(parsed.tools === null ? sample : { ...sample, tools: JSON.stringify(parsed.tools) });
  });
  if (samples.length === 0) throw new DataError('no assistant turn answers a user', where);
  return { samples, unprompted };
}

/** A tool call is written in the hermes form, which is also what the model would produce. */
function targetText(message: ChatMessage): string {
  const calls = (message.tool_calls ?? []).map(({ function: { name, arguments: args } }) => {
    const text = typeof args === 'string' ? args : JSON.stringify(args);
    return `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${text}}\n</tool_call>`;
  });
  return [message.content as string, ...calls].filter((part) => part !== '').join('\n');
}

function systemParts(row: Row, { system }: Conversation, options: ConvertOptions) {
  const own = (name: string) => (typeof row[name] === 'string' ? (row[name] as string) : '');
  const [instruction, ownStory, ownFormat] = [own('instruction'), own('story_content'), own('output_format')];
  const whole = system ?? instruction + ownStory + ownFormat;
  const storyAt = options.storyMarker ? whole.indexOf(options.storyMarker) : -1;
  const formatAt = options.outputFormatMarker ? whole.indexOf(options.outputFormatMarker) : -1;
  const storyEnd = formatAt > storyAt ? formatAt : whole.length;
  const formatEnd = storyAt > formatAt ? storyAt : whole.length;
  return {
    whole,
    story: ownStory || (storyAt >= 0 ? whole.slice(storyAt, storyEnd) : ''),
    outputFormat: ownFormat || (formatAt >= 0 ? whole.slice(formatAt, formatEnd) : ''),
  };
}
