/** The folder of a run, with the configuration it was started with. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { UserError } from '../config/index.js';

export async function openRunFolder(config: { trainer: { default_local_dir: string } }): Promise<string> {
  const folder = config.trainer.default_local_dir;
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(path.join(folder, 'config.json'), `${JSON.stringify(config, null, 2)}\n`);
  } catch (error) {
    throw new UserError(`trainer.default_local_dir=${folder} cannot be written to: ${(error as Error).message}`, {
      cause: error,
    });
  }
  return folder;
}
