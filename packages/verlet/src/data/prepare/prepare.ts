import type { ChatMessage } from '../../models/tokenizer/index.js';
import { DataError, type DataLocation, describeValue, type Row, type Table } from '../table/index.js';
import { boxedAnswer, hashAnswer } from './answer.js';

export interface PrepareOptions {
  split?: string;
  /** Put after (or, for search, before) the question instead of the usual text. */
  instruction?: string;
  system?: string;
  dataSource?: string;
  /** Sets the column `agent_name`, which picks the agent loop. */
  agentName?: string;
}

export interface PreparedRow extends Row {
  data_source: string;
  prompt: ChatMessage[];
  ability: string;
  reward_model: { style: 'rule'; ground_truth: unknown };
  extra_info: Record<string, unknown>;
}

export interface Preparer {
  description: string;
  /** Fields of the published format. */
  fields: string;
  prepare(row: Row, index: number, where: DataLocation, options: PrepareOptions): PreparedRow;
}

const THINK_HASH = 'Think step by step, then write the final answer after "####".';
const THINK_BOXED = 'Think step by step, then write the final answer within \\boxed{}.';
const THINK_ANSWER_LINE =
  'Think step by step. The last line of your reply is to be of the form "Answer: $Answer" (without quotes).';
const SEARCH =
  'Answer the question below. Whenever you get new information, reason about it first between <think> and </think>. If you ' +
  'find that you lack knowledge, call a search engine with <search> query </search>; its results come back between ' +
  '<information> and </information>. Search as often as you need. Once nothing more is needed, give the answer between ' +
  '<answer> and </answer> without explanation, for example <answer> Oslo </answer>. Question: ';

export const PREPARERS: Record<string, Preparer> = {
  gsm8k: {
    description: 'grade-school word problems; the answer follows ####',
    fields: 'question, answer',
    prepare(row, index, where, options) {
      const question = textField(row, ['question'], where);
      const solution = textField(row, ['answer'], where);
      const answer = hashAnswer(solution) ?? missing('has no final answer after "####"', where, 'answer');
      const prepared = mathRow(question, answer, index, options, 'openai/gsm8k', THINK_HASH);
      // What the multi-turn GSM8K tool and interaction of verl read.
      Object.assign(prepared.extra_info, {
        answer: solution,
        question,
        need_tools_kwargs: true,
        tools_kwargs: { calc_gsm8k_reward: { create_kwargs: { ground_truth: answer } } },
        interaction_kwargs: { name: 'gsm8k', query: question, ground_truth: answer },
      });
      return prepared;
    },
  },
  math: {
    description: 'MATH competition problems; the answer is in \\boxed{}',
    fields: 'problem, solution (level and type ride along)',
    prepare(row, index, where, options) {
      const problem = textField(row, ['problem', 'question'], where);
      const solution = textField(row, ['solution', 'answer'], where);
      const answer = boxedAnswer(solution) ?? missing('has no \\boxed{} answer', where, 'solution');
      const source = 'DigitalLearningGmbH/MATH-lighteval';
      const prepared = mathRow(problem, answer, index, options, source, THINK_BOXED);
      return withExtra(prepared, row, ['level', 'type', 'subject', 'unique_id']);
    },
  },
  aime: {
    description: 'AIME problems; the answer is an integer from 0 to 999',
    fields: 'problem, answer (or Problem, Answer)',
    prepare(row, index, where, options) {
      const problem = textField(row, ['problem', 'Problem', 'question'], where);
      const name = ['answer', 'Answer', 'solution'].find((field) => row[field] !== null && row[field] !== undefined);
      const raw = String(name ? row[name] : '').trim();
      const text = boxedAnswer(raw) ?? raw;
      if (!/^0*\d{1,3}$/.test(text))
        missing(`is to be an integer from 0 to 999, got "${text}"`, where, name ?? 'answer');
      const prepared = mathRow(problem, String(Number(text)), index, options, 'aime', THINK_ANSWER_LINE);
      return withExtra(prepared, row, ['id', 'ID', 'year', 'Year', 'url']);
    },
  },
  search_qa: {
    description: 'open questions for a searching agent (NQ, HotpotQA, TriviaQA ...), in the manner of Search-R1',
    fields: 'question, golden_answers or answer (id rides along)',
    prepare(row, index, where, options) {
      const plain = textField(row, ['question'], where).trim();
      const question = plain.endsWith('?') ? plain : `${plain}?`;
      const answers = [row.golden_answers ?? row.answers ?? row.answer ?? []]
        .flat()
        .filter((answer) => answer !== null);
      if (answers.length === 0) missing('has no answer', where, 'golden_answers');
      return withExtra(
        {
          data_source: options.dataSource ?? 'searchR1_nq',
          prompt: conversation((options.instruction ?? SEARCH) + question, options),
          ability: 'fact-reasoning',
          reward_model: { style: 'rule', ground_truth: { target: answers.map(String) } },
          extra_info: { split: options.split ?? 'train', index, question },
        },
        row,
        ['id', '_id', 'type', 'level'],
      );
    },
  },
};

/** Runs a preparer over a table. A row that does not fit stops it, with file, row and column. */
export async function* prepareRows(
  table: Table,
  name: string,
  options: PrepareOptions = {},
): AsyncGenerator<PreparedRow> {
  const preparer = PREPARERS[name];
  if (!preparer) throw new Error(`there is no preparer "${name}"; there are ${Object.keys(PREPARERS).join(', ')}`);
  let index = 0;
  for await (const row of table.rows()) {
    const prepared = preparer.prepare(row, index, table.locate(index), options);
    yield options.agentName ? { ...prepared, agent_name: options.agentName } : prepared;
    index++;
  }
}

function mathRow(
  question: string,
  answer: string,
  index: number,
  options: PrepareOptions,
  dataSource: string,
  instruction: string,
): PreparedRow {
  return {
    data_source: options.dataSource ?? dataSource,
    prompt: conversation(`${question} ${options.instruction ?? instruction}`, options),
    ability: 'math',
    reward_model: { style: 'rule', ground_truth: answer },
    extra_info: { split: options.split ?? 'train', index },
  };
}

function conversation(content: string, { system }: PrepareOptions): ChatMessage[] {
  const user = { role: 'user', content };
  return system ? [{ role: 'system', content: system }, user] : [user];
}

function withExtra(prepared: PreparedRow, row: Row, fields: string[]): PreparedRow {
  for (const field of fields) {
    if (row[field] !== null && row[field] !== undefined) prepared.extra_info[field] = row[field];
  }
  return prepared;
}

function textField(row: Row, names: string[], where: DataLocation): string {
  const name = names.find((candidate) => row[candidate] !== undefined && row[candidate] !== null);
  if (!name) missing(`is missing; the row has ${Object.keys(row).join(', ')}`, where, names[0] as string);
  const value = row[name as string];
  if (typeof value !== 'string' || value.trim() === '')
    missing(`is to be text, got ${describeValue(value)}`, where, name);
  return value as string;
}

function missing(problem: string, where: DataLocation, column?: string): never {
  throw new DataError(problem, { ...where, column });
}
