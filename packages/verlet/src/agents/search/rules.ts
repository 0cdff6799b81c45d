/** Search-R1's text rules: tags, actions, observations. Pure functions of text. */
import type { RetrievedDocument } from './contract.js';

export const SEARCH_END = '</search>';
export const ANSWER_END = '</answer>';

export type SearchAction = { kind: 'search'; query: string } | { kind: 'answer'; answer: string } | { kind: 'invalid' };

/**
 * The first complete `<search>` or `<answer>` of a turn. The one that stands first counts: the original looked for
 * `</search>` first, so an answer with a search behind it was not final.
 */
export function parseAction(text: string): SearchAction {
  const match = /<(search|answer)>([\s\S]*?)<\/\1>/.exec(text);
  if (!match) return { kind: 'invalid' };
  const content = match[2]!.trim();
  return match[1] === 'search' ? { kind: 'search', query: content } : { kind: 'answer', answer: content };
}

/** The text up to and with its first closing tag of an action. */
export function cutResponse(text: string): string {
  const ends = [SEARCH_END, ANSWER_END]
    .map((tag) => ({ tag, at: text.indexOf(tag) }))
    .filter(({ at }) => at >= 0)
    .sort((a, b) => a.at - b.at);
  const first = ends[0];
  return first ? text.slice(0, first.at + first.tag.length) : text;
}

export const INFORMATION_START = '\n\n<information>';
export const INFORMATION_END = '</information>\n\n';

export const INVALID_ACTION =
  '\nMy previous action is invalid. If I want to search, I should put the query between <search> and </search>. ' +
  'If I want to give the final answer, I should put the answer between <answer> and </answer>. Let me try again.\n';

/** `Doc 1(Title: T) text`, one per line. */
export function passagesToString(documents: readonly RetrievedDocument[]): string {
  return documents
    .map(({ document }, index) => {
      const { title, text } = splitContents(document.contents);
      return `Doc ${index + 1}(Title: ${title}) ${text}\n`;
    })
    .join('');
}

/** The layout of verl's search tool: title and text on their own lines. */
export function passagesToToolText(documents: readonly RetrievedDocument[]): string {
  return documents
    .map(({ document }, index) => {
      const { title, text } = splitContents(document.contents);
      return `Doc ${index + 1} (Title: ${title})\n${text}\n\n`;
    })
    .join('')
    .trim();
}

/** The first line of a document is its title. */
function splitContents(contents: string): { title: string; text: string } {
  const end = contents.indexOf('\n');
  return end < 0 ? { title: contents, text: '' } : { title: contents.slice(0, end), text: contents.slice(end + 1) };
}

/**
 * The final answer of a response, `undefined` without one. Takes the response alone: over prompt and response the
 * example answer in the prompt ("Beijing") was graded for models that had not answered.
 */
export function extractAnswer(response: string): string | undefined {
  return [...response.matchAll(/<answer>([\s\S]*?)<\/answer>/g)].at(-1)?.[1]?.trim();
}

/** The user message of Search-R1 for a question. */
export function searchPrompt(question: string): string {
  return (
    'Answer the question below. Whenever you get new information, think about it inside <think> and </think> first. ' +
    'If something is missing, call a search engine with <search> query </search>; it answers between <information> and ' +
    '</information>. You may search as often as you want. When nothing is missing, give the answer inside <answer> and ' +
    `</answer>, short and without explanation, for example <answer> Beijing </answer>. Question: ${question}\n`
  );
}
