/** Workers in this process: nothing is copied, user code can be plain functions. The default on one device. */
import { UserError } from '../../config/index.js';
import type { WorkerContext } from '../../workers/context.js';
import { singleProcess } from '../../workers/context.js';
import { WorkerError } from '../errors.js';
import type { Launcher, LaunchOptions, RankSet, RoleSpec } from './types.js';

/** Several ranks in one thread cannot wait for each other. */
function contextOf(rank: number, { worldSize, device }: LaunchOptions): WorkerContext {
  const where = device === 'cuda' ? 'cuda:0' : device;
  if (worldSize === 1) return singleProcess(where);
  const refuse = (): never => {
    throw new Error(`ranks in one process cannot add things up; use trainer.launcher=process for ${worldSize} ranks`);
  };
  return { rank, worldSize, device: where, sum: refuse, allReduce: refuse };
}

const killGraceMs = 10_000;

type AnyWorker = Record<string, unknown> & { close?: () => unknown };

export const inlineLauncher: Launcher = {
  name: 'inline',
  async launch(roles: readonly RoleSpec[], options: LaunchOptions): Promise<RankSet> {
    const { worldSize } = options;
    const ranks = Array.from({ length: worldSize }, (_, rank) => {
      const context = contextOf(rank, options);
      return new Map(
        roles.map(({ role, workerClass, config, extensions }) => [
          role,
          new workerClass(config, context, extensions) as AnyWorker,
        ]),
      );
    });
    const close = async (): Promise<void> => {
      for (const workers of ranks.splice(0)) for (const worker of workers.values()) await worker.close?.();
    };
    return {
      worldSize,
      sharesObjects: true,
      failed: new Promise(() => {}),
      async call(rank, role, method, args, timeoutMs) {
        const worker = ranks[rank]?.get(role);
        const describe = { rank, worldSize, method };
        if (!worker) throw new WorkerError({ ...describe, failure: 'died', reason: 'the group was closed' });
        let timer: NodeJS.Timeout | undefined;
        const limit = new Promise<never>((_, reject) => {
          if (timeoutMs >= 2 ** 31) return;
          timer = setTimeout(() => {
            const reason = `no answer within ${timeoutMs} ms`;
            reject(new WorkerError({ ...describe, failure: 'hung', reason }));
          }, timeoutMs);
        });
        const run = async (): Promise<unknown> => {
          try {
            return await (worker[method] as (...args: unknown[]) => unknown).apply(worker, args);
          } catch (error) {
            if (error instanceof UserError) throw error;
            const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
            throw new WorkerError({
              ...describe,
              failure: 'threw',
              reason: `${name}: ${message}`,
              workerErrorName: name,
              workerStack: stack,
              cause: error,
            });
          }
        };
        try {
          return await Promise.race([run(), limit]);
        } finally {
          clearTimeout(timer);
        }
      },
      close,
      // A worker that hangs may not close either.
      kill: () => Promise.race([close(), new Promise<void>((resolve) => setTimeout(resolve, killGraceMs).unref())]),
    };
  },
};
