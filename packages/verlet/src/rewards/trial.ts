import { createRewardInput, RewardError, type RewardInput, type RewardMessage, type ScoredSample } from './types.js';

/** Trying a reward function on rows of a file before a training run depends on it. */

export interface TrialColumns {
  /** The column with the response; otherwise the first of the usual names that is there. */
  response_key?: string;
  /** For rows without a `data_source`. */
  data_source?: string;
}

/** Datasets, verl's rollout dumps (`output`, `gts`), and other people's names for the same things. */
const responseColumns = ['solution_str', 'response', 'target_response', 'output', 'completion', 'responses'];
const truthColumns = ['ground_truth', 'gts', 'answer'];

function truthOf(row: Record<string, unknown>): unknown {
  const model = row.reward_model as { ground_truth?: unknown } | null | undefined;
  if (model?.ground_truth !== undefined) return model.ground_truth;
  const column = truthColumns.find((name) => row[name] !== undefined && row[name] !== null);
  return column ? row[column] : undefined;
}

/** The text to score. Without any response column, the ground truth itself: a reward must like it. */
function responseOf(row: Record<string, unknown>, truth: unknown, key: string | undefined, where: string): string {
  if (key && !(key in row))
    throw new RewardError(`${where} has no column ${key}; it has ${Object.keys(row).join(', ')}`);
  const column = key ?? responseColumns.find((name) => typeof row[name] === 'string');
  const value = column ? row[column] : truth;
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  throw new RewardError(
    `${where}: no response to score. Expected a text column named ${responseColumns.join(', ')}, or --response-key; ` +
      `the columns are ${Object.keys(row).join(', ')}`,
  );
}

export function inputFromRow(row: Record<string, unknown>, where: string, columns: TrialColumns = {}): RewardInput {
  const ground_truth = truthOf(row);
  const solution_str = responseOf(row, ground_truth, columns.response_key, where);
  const prompt = Array.isArray(row.prompt)
    ? (row.prompt as RewardMessage[])
    : typeof row.input === 'string'
      ? [{ role: 'user', content: row.input }]
      : undefined;
  return createRewardInput({
    ...row,
    data_source: String(columns.data_source ?? row.data_source ?? ''),
    solution_str,
    ground_truth,
    extra_info: (row.extra_info as Record<string, unknown> | null | undefined) ?? {},
    ...(prompt && { prompt }),
  });
}

const short = (value: number): string => String(Number(value.toPrecision(4)));
const oneLine = (text: string, length: number): string => {
  const line = text.replace(/\s+/g, ' ').trim();
  // The end of a response holds its answer.
  return line.length <= length ? line : `… ${line.slice(-length)}`;
};

/** One line per value while there are few, else ten equal bins. */
export function distribution(values: readonly number[], width = 40): string[] {
  const distinct = [...new Set(values)].sort((a, b) => a - b);
  const [low, high] = [distinct[0]!, distinct.at(-1)!];
  const size = (high - low) / 10;
  const bins =
    distinct.length <= 10
      ? distinct.map((value) => ({ label: short(value), count: values.filter((one) => one === value).length }))
      : Array.from({ length: 10 }, (_, index) => {
          const [from, to] = [low + index * size, index === 9 ? Number.POSITIVE_INFINITY : low + (index + 1) * size];
          const label = `${short(from)} to ${short(index === 9 ? high : to)}`;
          return { label, count: values.filter((value) => value >= from && value < to).length };
        });
  const most = Math.max(...bins.map((bin) => bin.count));
  const labelWidth = Math.max(...bins.map((bin) => bin.label.length));
  return bins.map(({ label, count }) => {
    const bar = '█'.repeat(count === 0 ? 0 : Math.max(1, Math.round((count / most) * width)));
    return `  ${label.padStart(labelWidth)} ${bar}${bar && ' '}${count}`;
  });
}

export interface TrialReportOptions {
  /** How many of the best and the worst rows are shown. */
  extremes?: number;
}

/** What a person wants to see before training: how scores are spread, which rows are at the ends, what failed. */
export function describeTrial(
  inputs: readonly RewardInput[],
  results: readonly ScoredSample[],
  options: TrialReportOptions = {},
): string {
  const rows = results.map((result, index) => ({ ...result, index, input: inputs[index]! }));
  const good = rows.filter((row) => row.error === undefined);
  const bad = rows.filter((row) => row.error !== undefined);
  const lines = [`${results.length} rows scored, ${bad.length} errors`];
  const show = (row: (typeof rows)[number]) => {
    const extras = Object.entries(row.extras).map(
      ([key, value]) => `${key}=${typeof value === 'number' ? short(value) : oneLine(String(value), 40)}`,
    );
    const truth =
      typeof row.input.ground_truth === 'string' ? row.input.ground_truth : JSON.stringify(row.input.ground_truth);
    lines.push(`  row ${row.index}  ${short(row.score)}${extras.length ? `  (${extras.join(', ')})` : ''}`);
    lines.push(
      `    response: ${oneLine(row.input.solution_str, 160)}`,
      `    truth:    ${oneLine(truth ?? 'none', 160)}`,
    );
  };
  if (good.length > 0) {
    const scores = good.map((row) => row.score);
    const mean = scores.reduce((sum, score) => sum + score, 0) / scores.length;
    const spread = Math.sqrt(scores.reduce((sum, score) => sum + (score - mean) ** 2, 0) / scores.length);
    const sorted = [...good].sort((a, b) => a.score - b.score);
    lines.push(
      `mean ${short(mean)}, standard deviation ${short(spread)}, from ${short(sorted[0]!.score)} to ${short(sorted.at(-1)!.score)}`,
    );
    lines.push('', 'distribution', ...distribution(scores));
    for (const source of sourcesOf(good)) lines.push(source);
    // Few rows: no row is shown at both ends.
    const count = Math.min(options.extremes ?? 3, Math.ceil(sorted.length / 2));
    if (spread === 0) lines.push('', 'every row has the same score: a group like this teaches nothing');
    lines.push('', 'lowest');
    for (const row of sorted.slice(0, count)) show(row);
    lines.push('', 'highest');
    for (const row of sorted.slice(-count).reverse()) show(row);
  }
  if (bad.length > 0) {
    lines.push('', 'errors');
    for (const message of new Set(bad.map((row) => row.error!))) {
      const same = bad.filter((row) => row.error === message);
      lines.push(`  ${same.length} × ${message.trim().split('\n')[0]} (first: row ${same[0]!.index})`);
    }
  }
  return lines.join('\n');
}

function sourcesOf(rows: readonly (ScoredSample & { input: RewardInput })[]): string[] {
  const sources = new Map<string, number[]>();
  for (const row of rows) {
    const scores = sources.get(row.input.data_source) ?? [];
    scores.push(row.score);
    sources.set(row.input.data_source, scores);
  }
  if (sources.size < 2) return [];
  const lines = [...sources].map(
    ([source, scores]) =>
      `  ${source}: ${scores.length} rows, mean ${short(scores.reduce((a, b) => a + b) / scores.length)}`,
  );
  return ['', 'by data_source', ...lines];
}
