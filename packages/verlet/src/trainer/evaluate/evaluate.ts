/** Scores the responses of a file, by data source. */
import { type EvaluationConfig, UserError } from '../../config/index.js';
import { DataError, describeValue, openTable, type Row, type Table, writeParquet } from '../../data/index.js';
import {
  createRewardInput,
  createRewardManager,
  loadRewardFunction,
  type RewardInput,
  type RewardMessage,
  type ScoredSample,
} from '../../rewards/index.js';
import { benchmarkOf, prepareBenchmarkRow } from '../generate/benchmarks.js';
import { writeJsonLines } from '../generate/write-output.js';
import { type Estimate, estimate, type JudgedSample } from './estimates.js';
import { finalAnswer } from './final-answer.js';

export interface EvaluateOptions {
  config: EvaluationConfig;
  /** A response is correct when its reward says `acc`, else when its score is at least this. */
  passThreshold?: number;
  /** Seconds that one call of the reward function may take. */
  timeoutSeconds?: number;
  signal?: AbortSignal;
  onProgress?: (done: number, total: number) => void;
  note?: (text: string) => void;
}

export interface SourceReport {
  dataSource: string;
  prompts: number;
  samplesPerPrompt: number;
  errors: number;
  estimates: Estimate[];
}

export interface EvaluateResult {
  sources: SourceReport[];
  /** verl's `test_score/<data source>`, and every estimate as `<data source>/<name>`. */
  metrics: Record<string, number>;
}

interface PromptScores {
  dataSource: string;
  samples: (JudgedSample & { error?: string })[];
}

/** Prompts whose responses are scored in one call of the manager. */
const promptsPerCall = 64;

export async function evaluate(options: EvaluateOptions): Promise<EvaluateResult> {
  const { config } = options;
  const output = config.data.output_path;
  if (output && !/\.(parquet|jsonl)$/.test(output))
    throw new UserError(`data.output_path=${output}: its name must end in .parquet or .jsonl`, { exitCode: 2 });
  const table = await openTable(config.data.path);
  try {
    if (table.numRows === 0) throw new UserError(`data.path=${String(config.data.path)}: there are no rows`);
    const scored = await scoreTable(table, options);
    if (output) {
      const rows = withScores(table, scored, config);
      if (output.endsWith('.jsonl')) await writeJsonLines(output, rows);
      else await writeParquet(output, rows, { mixed: 'json' });
    }
    return summarize(scored);
  } finally {
    await table.close();
  }
}

async function scoreTable(table: Table, options: EvaluateOptions): Promise<PromptScores[]> {
  const { config, signal, onProgress, note } = options;
  const timeout_s = options.timeoutSeconds ?? 300;
  const scorer = await loadRewardFunction(config.custom_reward_function, { timeout_s });
  const name = scorer.type === 'batch' ? 'batch' : 'naive';
  const manager = createRewardManager(name, scorer, { timeout_s, warn: note });
  const benchmark = benchmarkOf(table, config.data.prompt_key);
  const prompts: PromptScores[] = [];
  let inputs: RewardInput[][] = [];
  const flush = async (): Promise<void> => {
    const results = await manager.score(inputs.flat());
    if (prompts.length === 0 && results.every(({ error }) => error !== undefined))
      throw new UserError(`every one of the first ${results.length} rewards failed; the first: ${results[0]!.error}`);
    for (const ofPrompt of inputs) {
      const own = results.splice(0, ofPrompt.length);
      prompts.push({
        dataSource: ofPrompt[0]!.data_source,
        samples: ofPrompt.map((input, k) => judge(input, own[k]!, options.passThreshold ?? 1)),
      });
    }
    inputs = [];
    onProgress?.(prompts.length, table.numRows);
  };
  try {
    let index = 0;
    for await (const raw of table.rows()) {
      signal?.throwIfAborted();
      const where = table.locate(index);
      const prepared = benchmark
        ? { ...prepareBenchmarkRow(benchmark, raw, index, where), ...responsesIn(raw, config) }
        : raw;
      inputs.push(inputsOf(prepared, config, where));
      if (inputs.length >= promptsPerCall) await flush();
      index++;
    }
    if (inputs.length > 0) await flush();
    return prompts;
  } finally {
    await manager.close();
  }
}

const responsesIn = (row: Row, { data }: EvaluationConfig): Row => ({ [data.response_key]: row[data.response_key] });

/** One input of the reward function per response of a row. */
function inputsOf(row: Row, { data }: EvaluationConfig, where: { file: string; row: number }): RewardInput[] {
  const cell = row[data.response_key];
  const responses = typeof cell === 'string' ? [cell] : cell;
  const column = data.response_key;
  if (!Array.isArray(responses) || responses.length === 0 || responses.some((text) => typeof text !== 'string'))
    throw new DataError(
      `is to hold a text or a list of texts, got ${describeValue(cell)}. Name the column with data.response_key, or ` +
        'give --model to generate responses first',
      { ...where, column },
    );
  const source = row[data.data_source_key];
  if (typeof source !== 'string')
    throw new DataError(`is to name the data source, got ${describeValue(source)}`, {
      ...where,
      column: data.data_source_key,
    });
  const model = row[data.reward_model_key] as { ground_truth?: unknown } | null | undefined;
  if (typeof model !== 'object' || model === null || model.ground_truth === undefined)
    throw new DataError('is to hold {ground_truth}', { ...where, column: data.reward_model_key });
  const prompt = row[data.prompt_key];
  return (responses as string[]).map((solution_str) =>
    createRewardInput({
      ...row,
      data_source: source,
      solution_str,
      ground_truth: model.ground_truth,
      extra_info: (row.extra_info as Record<string, unknown> | null | undefined) ?? {},
      ...(Array.isArray(prompt) ? { prompt: prompt as RewardMessage[] } : {}),
    }),
  );
}

function judge(input: RewardInput, { score, extras, error }: ScoredSample, threshold: number) {
  const { acc, pred } = extras;
  const isCorrect = acc === undefined ? score >= threshold : Number(acc) >= 1;
  // Rewards that name the answer decide; an empty one, like verl's mark for none, has no vote.
  const named = typeof pred === 'string' ? pred : finalAnswer(input.solution_str);
  const answer = named === '' || named === '[INVALID]' ? null : named;
  return { score, isCorrect, answer, ...(error === undefined ? {} : { error }) };
}

async function* withScores(
  table: Table,
  scored: readonly PromptScores[],
  config: EvaluationConfig,
): AsyncGenerator<Row> {
  let index = 0;
  for await (const row of table.rows()) {
    const { dataSource, samples } = scored[index++]!;
    yield {
      ...row,
      [config.data.data_source_key]: dataSource,
      scores: samples.map(({ score }) => score),
      correct: samples.map(({ isCorrect }) => isCorrect),
      answers: samples.map(({ answer }) => answer ?? ''),
    };
  }
}

function summarize(prompts: readonly PromptScores[]): EvaluateResult {
  const bySource = new Map<string, PromptScores[]>();
  for (const prompt of prompts) {
    const own = bySource.get(prompt.dataSource);
    if (own) own.push(prompt);
    else bySource.set(prompt.dataSource, [prompt]);
  }
  const metrics: Record<string, number> = {};
  const sources = [...bySource].map(([dataSource, own]): SourceReport => {
    const estimates = estimate(own.map(({ samples }) => samples));
    metrics[`test_score/${dataSource}`] = estimates[0]!.value;
    for (const { name, value } of estimates) metrics[`${dataSource}/${name}`] = value;
    return {
      dataSource,
      prompts: own.length,
      samplesPerPrompt: Math.min(...own.map(({ samples }) => samples.length)),
      errors: own.reduce((sum, { samples }) => sum + samples.filter(({ error }) => error !== undefined).length, 0),
      estimates,
    };
  });
  return { sources, metrics };
}
