/**
 * Parts the thinking from the answer: `<think>...</think>answer`. The opening tag may have been part of the prompt.
 * A call that is only thought about is not a call.
 */
export function splitReasoning(text: string): { reasoning: string; answer: string } {
  const end = text.lastIndexOf('</think>');
  if (end >= 0) {
    const reasoning = text.slice(0, end).replace(/^\s*<think>/, '');
    return { reasoning: reasoning.trim(), answer: text.slice(end + '</think>'.length).replace(/^\n+/, '') };
  }
  if (/^\s*<think>/.test(text)) return { reasoning: text.replace(/^\s*<think>/, '').trim(), answer: '' };
  return { reasoning: '', answer: text };
}
