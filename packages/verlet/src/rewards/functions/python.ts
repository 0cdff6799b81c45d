import type { RewardInput, RewardResult } from '../types.js';
import { PythonProcess, type PythonProcessOptions } from './python-process.js';
import { createScorer, type Scorer } from './scorer.js';
import { WorkQueue } from './work-queue.js';

export interface PythonScorerOptions extends PythonProcessOptions {
  /** Processes that score at the same time. */
  processes?: number;
  /** Deadline of one call (a batch is one call). */
  timeout_s?: number;
}

const verlFields = ['data_source', 'solution_str', 'ground_truth', 'extra_info'];

/** Only what the function names is read, so that lazy fields stay lazy. */
function fieldsFor(input: RewardInput, form: string, wants: readonly string[]): Record<string, unknown> {
  if (form.startsWith('easyr1')) {
    const length = Number(input.response_length ?? input.response_ids?.length ?? 0);
    const { data_source, extra_info, prompt } = input;
    return {
      response: input.solution_str,
      response_length: length,
      ground_truth: input.ground_truth,
      data_source,
      extra_info,
      prompt,
    };
  }
  const names = new Set([...verlFields, ...wants.filter((name) => name in input)]);
  return Object.fromEntries([...names].map((name) => [name, plain(input[name])]));
}

const plain = (value: unknown): unknown =>
  ArrayBuffer.isView(value) ? Array.from(value as unknown as ArrayLike<number>) : value;

/** A Python reward file, unchanged: verl's `compute_score(data_source, solution_str, ...)` or EasyR1's modules. */
export async function loadPythonScorer(
  path: string,
  name: string,
  kwargs: Record<string, unknown>,
  options: PythonScorerOptions = {},
): Promise<Scorer> {
  const processes = Array.from({ length: options.processes ?? 1 }, () => new PythonProcess(path, name, options));
  const description = await processes[0]!.start();
  // The queue hands out the last one first: the process that runs already should be the first, the others start when needed.
  const queue = new WorkQueue(processes.toReversed());
  const timeoutMs = (options.timeout_s ?? 300) * 1000;
  const call = async (inputs: readonly RewardInput[]): Promise<RewardResult[]> => {
    const fields = inputs.map((input) => fieldsFor(input, description.form, description.wants));
    return (await queue.run((python) => python.call(fields, kwargs, timeoutMs))) as RewardResult[];
  };
  const close = async () => {
    for (const python of processes) python.kill();
  };
  const bound = { options: kwargs, source: { path, name }, close };
  if (description.type === 'batch') return createScorer({ type: 'batch', compute: call, ...bound });
  return createScorer({ type: 'sequential', compute: async (input) => (await call([input]))[0]!, ...bound });
}
