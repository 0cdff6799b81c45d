/** A loss or gradient that is not finite: the optimizer has not stepped; the batch that caused it is kept to be looked at. */
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { UserError } from '../../config/errors.js';
import { DataProto, saveDataProto } from '../../protocol/index.js';

/** No defect of the program: told without a stack, which is in `reason.json` and in `cause`. */
export class TrainingDivergedError extends UserError {
  override readonly name = 'TrainingDivergedError';
}

/** In this process the error itself; from another rank, a worker error that says its name. */
export function isNonFinite(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return (
    error.name === 'NonFiniteError' || (error as { workerErrorName?: string }).workerErrorName === 'NonFiniteError'
  );
}

/** Rows of each tensor that hold NaN or infinity. */
export function nonFiniteRows(batch: DataProto): Record<string, number[]> {
  const found: Record<string, number[]> = {};
  for (const [key, tensor] of batch.batch) {
    if (!tensor.dtype.startsWith('float') && !tensor.dtype.startsWith('bfloat')) continue;
    const values = tensor.toFloat32Array();
    const width = values.length / batch.length;
    const rows = Array.from({ length: batch.length }, (_, row) => row).filter((row) => {
      for (let k = row * width; k < (row + 1) * width; k++) if (!Number.isFinite(values[k])) return true;
      return false;
    });
    if (rows.length) found[key] = rows;
  }
  return found;
}

/** What JSON cannot hold is said by its type: a column that cannot be kept must not lose the tensors. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (_, inner: unknown) => {
      if (typeof inner === 'bigint') return String(inner);
      if (typeof inner === 'function') return `[function ${inner.name}]`;
      if (inner instanceof Map) return [...inner];
      if (ArrayBuffer.isView(inner)) return Array.from(inner as Float32Array);
      return inner;
    }) ?? 'null',
  );
}

export interface Failure {
  runFolder: string;
  step: number;
  /** The phase of the step, such as `update_actor`. */
  phase: string;
  batch: DataProto;
  error: Error;
}

/** Writes `failed_batch_step_N` (tensors, columns, reason) and returns the error to raise. */
export function keepFailedBatch({ runFolder, step, phase, batch, error }: Failure): TrainingDivergedError {
  const folder = path.join(runFolder, `failed_batch_step_${step}`);
  const rows = nonFiniteRows(batch);
  let kept = `the batch is in ${folder}`;
  try {
    const columns = [...batch.nonTensorBatch].map(([key, values]): [string, unknown[]] => [key, values.map(plain)]);
    saveDataProto(new DataProto(batch.batch, columns, plain(batch.metaInfo) as Record<string, unknown>), folder);
    const reason = { step, phase, message: error.message, non_finite_rows: rows };
    writeFileSync(path.join(folder, 'reason.json'), `${JSON.stringify(reason, null, 2)}\n`);
  } catch (problem) {
    kept = `the batch could not be kept in ${folder} (${(problem as Error).message})`;
  }
  const inputs = Object.keys(rows);
  const where = inputs.length
    ? `The batch itself holds values that are not finite (${inputs.map((key) => `${key} in rows ${rows[key]!.slice(0, 8).join(', ')}`).join('; ')}): look at the reward function or the model that made them.`
    : 'All inputs of the batch are finite: try a smaller learning rate, a smaller grad_clip, or fp32.';
  return new TrainingDivergedError(
    `step ${step}, ${phase}: ${firstLine(error.message)}. The optimizer did not step on it; ${kept}. ${where} The same command goes on from the last checkpoint.`,
    { cause: error },
  );
}

/** The same for learning from fixed examples: they go into `failed_batch_step_N/items.json`. */
export function keepFailedExamples(failure: {
  runFolder: string;
  step: number;
  items: readonly unknown[];
  error: Error;
}): TrainingDivergedError {
  const { runFolder, step, items, error } = failure;
  const folder = path.join(runFolder, `failed_batch_step_${step}`);
  let kept = `the examples are in ${folder}`;
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, 'items.json'), `${JSON.stringify(items.map(plain))}\n`);
    const reason = { step, phase: 'update', message: error.message };
    writeFileSync(path.join(folder, 'reason.json'), `${JSON.stringify(reason, null, 2)}\n`);
  } catch (problem) {
    kept = `the examples could not be kept in ${folder} (${(problem as Error).message})`;
  }
  return new TrainingDivergedError(
    `step ${step}: ${firstLine(error.message)}. The optimizer did not step on it; ${kept}. Try a smaller learning rate ` +
      '(optim.lr), a smaller optim.clip_grad, or fp32. The same command goes on from the last checkpoint.',
    { cause: error },
  );
}

/** Errors of ranks carry the rank's stack below their first line. */
function firstLine(text: string): string {
  return text.split('\n', 1)[0]!.replace(/\.$/, '');
}
