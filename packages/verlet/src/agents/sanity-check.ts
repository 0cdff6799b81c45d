import type { AgentConfig, ChatMessage, ChatTokenizer, ToolSchema } from './types.js';

/**
 * Compares the tokens that were kept with the template applied to the whole conversation. A difference is no fault of the
 * record, which is what the model saw; it tells that a later use of the model will see such conversations differently
 * (templates that drop thinking, sampled spellings that no tokenizer gives).
 */
export function matchesTemplate(
  keptIds: readonly number[],
  messages: readonly ChatMessage[],
  tools: readonly ToolSchema[],
  tokenizer: ChatTokenizer,
  config: Pick<AgentConfig, 'applyChatTemplateKwargs'> & {
    tokenizationSanityCheckMode: 'strict' | 'ignore_strippable';
  },
): boolean {
  const text = tokenizer.applyChatTemplate(messages, {
    tools: tools.length > 0 ? [...tools] : null,
    addGenerationPrompt: messages.at(-1)?.role !== 'assistant',
    kwargs: config.applyChatTemplateKwargs,
  });
  if (config.tokenizationSanityCheckMode === 'ignore_strippable') {
    return withoutSpace(text).startsWith(withoutSpace(tokenizer.decode(keptIds)));
  }
  const ids = tokenizer.encode(text, { addSpecialTokens: false });
  // The template may close the last turn, and a turn that was cut has no end token.
  return keptIds.length <= ids.length && keptIds.every((id, index) => id === ids[index]);
}

function withoutSpace(text: string): string {
  return text.replace(/\s+/g, '');
}
