import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { UserError } from '../config/index.js';
import { WorkerError } from '../controller/index.js';

/** A rank that was killed, hung or never came up is no defect of the program; what was saved before is not lost. */
export function explained(error: unknown, runFolder: string): unknown {
  if (!(error instanceof WorkerError) || error.failure === 'threw') return error;
  const latest = path.join(runFolder, 'latest_checkpointed_iteration.txt');
  const next = existsSync(latest)
    ? `the same command goes on after step ${readFileSync(latest, 'utf8').trim()}`
    : 'nothing was saved yet (trainer.save_freq); the same command starts anew';
  return new UserError(`${error.message}\nThe ranks were ended; ${next}`, { cause: error });
}
