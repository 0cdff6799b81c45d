/** Answers the prompts of a file: rows in, the same rows with a column of responses out. */
import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { type GenerationConfig, UserError } from '../../config/index.js';
import { DataError, openTable, type Row, type Table, toMessages } from '../../data/index.js';
import { BATCH_TOKENS_PER_STEP } from '../../rollout/engine.js';
import type { SamplingParams } from '../../rollout/index.js';
import { readTemplate } from '../../workers/model-source.js';
import { mixSeed } from '../rows.js';
import { type Benchmark, benchmarkOf } from './benchmarks.js';
import { type OpenedEngine, openEngine } from './open-engine.js';
import { type FinishedRow, PartialFile } from './partial-file.js';
import { promptRows, writeOutput } from './write-output.js';

export interface GenerateOptions {
  config: GenerationConfig;
  /** Stop; finished rows are kept and the next run goes on. */
  signal?: AbortSignal;
  onProgress?: (done: number, total: number) => void;
  note?: (text: string) => void;
  /** Throw away what an earlier run left unfinished. */
  restart?: boolean;
  /** Replace an output that is there. */
  overwrite?: boolean;
}

export interface GenerateResult {
  outputPath: string;
  numRows: number;
  /** Rows that an earlier run had finished. */
  resumedRows: number;
  numTokens: number;
  seconds: number;
  interrupted: boolean;
}

export async function generate(options: GenerateOptions): Promise<GenerateResult> {
  const { config, signal } = options;
  checkOptions(options);
  const { path: files, output_path: outputPath, prompt_key: promptKey } = config.data;
  const table = await openTable(files);
  try {
    if (table.numRows === 0) throw new UserError(`data.path=${String(files)}: there are no rows`);
    const benchmark = benchmarkOf(table, promptKey);
    if (benchmark) options.note?.(`the columns are those of ${benchmark.name}: prompts are made from them`);
    else if (!table.columns.includes(promptKey))
      throw new DataError(`there is no such column; the file has ${table.columns.join(', ')}`, {
        file: table.sources[0]?.path,
        column: promptKey,
      });
    await mkdir(path.dirname(path.resolve(outputPath)), { recursive: true });
    const partialPath = `${outputPath}.partial.jsonl`;
    const partial = await PartialFile.open(
      partialPath,
      fingerprintOf(config, table.numRows),
      table.numRows,
      options.restart,
    );
    try {
      const resumedRows = partial.count;
      if (resumedRows > 0) options.note?.(`${resumedRows} of ${table.numRows} rows were finished before; going on`);
      const started = performance.now();
      let numTokens = 0;
      if (resumedRows < table.numRows) {
        const opened = await openEngine(config.model.path, engineOptions(config));
        try {
          numTokens = await answerRows(table, benchmark, opened, partial, options);
        } finally {
          await opened.engine.close();
        }
      }
      const seconds = (performance.now() - started) / 1000;
      const interrupted = Boolean(signal?.aborted && partial.count < table.numRows);
      const result = { outputPath, numRows: partial.count, resumedRows, numTokens, seconds, interrupted };
      if (interrupted) return result;
      await writeOutput(table, benchmark, partial, {
        path: outputPath,
        responseKey: config.data.response_key,
        hasLogProbs: config.rollout.calculate_log_probs,
      });
      await rm(partialPath, { force: true });
      return result;
    } finally {
      await partial.close();
    }
  } finally {
    await table.close();
  }
}

function checkOptions({ config, overwrite }: GenerateOptions): void {
  const { nnodes, n_gpus_per_node } = config.trainer;
  if (nnodes * n_gpus_per_node > 1)
    throw new UserError(
      `trainer.nnodes=${nnodes} and trainer.n_gpus_per_node=${n_gpus_per_node} ask for several devices; generation runs ` +
        'on one. Set both to 1, or split the file and run it several times',
      { exitCode: 2 },
    );
  const { output_path: output } = config.data;
  if (!/\.(parquet|jsonl)$/.test(output))
    throw new UserError(`data.output_path=${output}: its name must end in .parquet or .jsonl`, { exitCode: 2 });
  if (existsSync(output) && !overwrite)
    throw new UserError(`data.output_path=${output} is there already; name another file or give --overwrite`);
}

/** What the responses depend on. Sizes of batches and limits on prompts are not part of it. */
function fingerprintOf(config: GenerationConfig, numRows: number): Record<string, unknown> {
  const { data, model, rollout } = config;
  return {
    'data.path': data.path,
    rows: numRows,
    'data.prompt_key': data.prompt_key,
    'data.n_samples': data.n_samples,
    'data.apply_chat_template_kwargs': data.apply_chat_template_kwargs,
    'model.path': model.path,
    'model.lora_adapter_path': model.lora_adapter_path,
    'model.custom_chat_template': model.custom_chat_template,
    'rollout.response_length': rollout.response_length,
    'rollout.calculate_log_probs': rollout.calculate_log_probs,
    sampling: samplingOf(config),
    'rollout.seed': rollout.seed,
  };
}

function samplingOf({ rollout }: GenerationConfig): SamplingParams {
  return {
    temperature: rollout.do_sample ? rollout.temperature : 0,
    topK: rollout.top_k === 0 ? -1 : rollout.top_k,
    topP: rollout.top_p,
    minP: rollout.min_p,
    repetitionPenalty: rollout.repetition_penalty,
    ignoreEos: rollout.ignore_eos,
    maxTokens: rollout.response_length,
  };
}

function engineOptions({ model, rollout, trainer }: GenerationConfig) {
  const { base_url: baseUrl, api_key: apiKey } = rollout.server;
  if (rollout.name === 'http' && !baseUrl)
    throw new UserError('rollout.name=http needs rollout.server.base_url', { exitCode: 2 });
  return {
    device: trainer.device === 'auto' ? undefined : trainer.device,
    maxNumSeqs: rollout.max_num_seqs,
    maxNumBatchedTokens: rollout.max_num_batched_tokens,
    maxModelLength: rollout.max_model_len ?? rollout.prompt_length + rollout.response_length,
    gpuMemoryUtilization: rollout.gpu_memory_utilization,
    enablePrefixCaching: rollout.enable_prefix_caching,
    tokensPerStep: BATCH_TOKENS_PER_STEP,
    adapter: model.lora_adapter_path,
    tokenizerPath: model.tokenizer_path,
    server: baseUrl ? { baseUrl, apiKey: apiKey ?? undefined } : undefined,
  };
}

/** Keeps `data.batch_size` prompts under way until every row is answered. Returns the number of tokens sampled. */
async function answerRows(
  table: Table,
  benchmark: Benchmark | null,
  { engine, tokenizer }: OpenedEngine,
  partial: PartialFile,
  { config, signal, onProgress }: GenerateOptions,
): Promise<number> {
  const { data, rollout } = config;
  const template = config.model.custom_chat_template;
  const chatTemplate = template ? await readTemplate(template) : undefined;
  const sampling = samplingOf(config);
  let numTokens = 0;
  // One listener for all requests: a signal warns when thousands listen to it.
  const live = new Set<string>();
  const abortAll = (): void => {
    for (const id of live) engine.abort(id);
  };
  signal?.addEventListener('abort', abortAll, { once: true });

  const answer = async (index: number, row: Row): Promise<void> => {
    const where = { ...table.locate(index), column: data.prompt_key };
    const messages = toMessages(row[data.prompt_key], where);
    const promptIds = tokenizer.encodeChat(messages, {
      addGenerationPrompt: true,
      chatTemplate,
      kwargs: data.apply_chat_template_kwargs,
    });
    if (promptIds.length > rollout.prompt_length)
      throw new DataError(
        `the prompt has ${promptIds.length} tokens, more than rollout.prompt_length=${rollout.prompt_length}; raise that`,
        where,
      );
    const seed = mixSeed(rollout.seed, index);
    const outputs = await Promise.all(
      Array.from({ length: data.n_samples }, async (_, sampleIndex) => {
        const { id, output } = engine.submit({ promptIds, sampling: { ...sampling, seed }, sampleIndex });
        live.add(id);
        return output.finally(() => live.delete(id));
      }),
    );
    if (outputs.some(({ finishReason }) => finishReason === 'abort')) return;
    const finished: FinishedRow = {
      row: index,
      responses: outputs.map(({ tokenIds }) => tokenizer.decode(tokenIds, { skipSpecialTokens: true })),
    };
    if (rollout.calculate_log_probs) finished.log_probs = outputs.map(({ logProbs }) => logProbs);
    for (const { tokenIds } of outputs) numTokens += tokenIds.length;
    await partial.add(finished);
    onProgress?.(partial.count, table.numRows);
  };

  const running = new Set<Promise<void>>();
  let failure: unknown = null;
  let index = -1;
  for await (const row of promptRows(table, benchmark)) {
    index++;
    if (signal?.aborted || failure) break;
    if (partial.has(index)) continue;
    const task: Promise<void> = answer(index, row)
      .catch((error: unknown) => {
        failure ??= error;
      })
      .finally(() => running.delete(task));
    running.add(task);
    if (running.size >= data.batch_size) await Promise.race(running);
  }
  // What is under way when a row fails is finished and kept.
  await Promise.all(running);
  signal?.removeEventListener('abort', abortAll);
  if (failure) throw failure;
  return numTokens;
}
