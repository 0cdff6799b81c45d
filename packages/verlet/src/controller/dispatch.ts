/** How one call of the controller becomes one call per rank, and their results one result. */
import { zeros } from '@verlet/torch';
import { DataProto, padDataProtoToDivisor, unpadDataProto } from '../protocol/index.js';
import type { DispatchMode } from '../workers/register.js';

export class DispatchError extends Error {
  override readonly name = 'DispatchError';
}

const perRankResults = (results: unknown[]): unknown =>
  results.every((result) => result === undefined || result === null) ? undefined : results;

const oneToAll: DispatchMode = {
  dispatch: (args, worldSize) => ({ perRank: Array.from({ length: worldSize }, () => args) }),
  collect: perRankResults,
};

const allToAll: DispatchMode = {
  dispatch(args, worldSize, method) {
    for (const [k, arg] of args.entries())
      if (!Array.isArray(arg) || arg.length !== worldSize)
        throw new DispatchError(
          `${method}: argument ${k + 1} must be an array with one entry for each of ${worldSize} ranks`,
        );
    return {
      perRank: Array.from({ length: worldSize }, (_, rank) => args.map((arg) => (arg as unknown[])[rank])),
    };
  },
  collect: perRankResults,
};

const rankZero: DispatchMode = {
  dispatch: (args, worldSize) => ({
    perRank: Array.from({ length: worldSize }, (_, rank) => (rank === 0 ? args : null)),
  }),
  collect: (results) => results[0],
};

function batchOf(args: unknown[], method: string): DataProto {
  const [batch] = args;
  if (!(batch instanceof DataProto)) throw new DispatchError(`${method}: the first argument must be a DataProto`);
  return batch;
}

/** Neighbouring rows to one rank, all ranks the same number: every rank takes part, as collectives in the method need. */
const dataParallel: DispatchMode = {
  dispatch(args, worldSize, method) {
    const batch = batchOf(args, method);
    if (worldSize === 1 || batch.length === 0)
      return { perRank: Array.from({ length: worldSize }, () => args), state: { padSize: 0 } };
    const { padded, padSize } = padDataProtoToDivisor(batch, worldSize);
    const chunks = padded.chunk(worldSize);
    return {
      perRank: chunks.map((chunk) => [chunk, ...args.slice(1)]),
      temporary: [padded, ...chunks],
      state: { padSize },
    };
  },
  collect(results, { state }, method) {
    const joined = join(results, method);
    const { padSize } = state as { padSize: number };
    if (padSize === 0 || joined.length === 0) return joined;
    const unpadded = unpadDataProto(joined, padSize);
    joined.dispose();
    return unpadded;
  },
};

/**
 * Neighbouring rows in nearly equal shares, nothing added: for methods that act on the world, such as rollouts with tools, and
 * that return as many rows as they like. Ranks without rows are not called, so such a method must not use collectives.
 */
const dataParallelRows: DispatchMode = {
  dispatch(args, worldSize, method) {
    const batch = batchOf(args, method);
    if (worldSize === 1) return { perRank: [args] };
    const at = (rank: number): number => Math.ceil((rank * batch.length) / worldSize);
    const shares = Array.from({ length: worldSize }, (_, rank) =>
      at(rank) < at(rank + 1) ? batch.slice(at(rank), at(rank + 1)) : null,
    );
    return {
      perRank: shares.map((share) => (share ? [share, ...args.slice(1)] : null)),
      temporary: shares.filter((share) => share !== null),
    };
  },
  collect: (results, _, method) => join(results, method),
};

/**
 * Rows are dealt out in turn, so that rows k*M to (k+1)*M are the k-th mini-batch of M rows whatever the number of ranks; two
 * ranks make the update that one rank makes. Rows added to make the deal even have an empty `response_mask`: nothing is learnt
 * from them and no count sees them.
 */
const dataParallelUpdate: DispatchMode = {
  dispatch(args, worldSize, method) {
    const batch = batchOf(args, method);
    if (worldSize === 1) return { perRank: [args] };
    const { padded, padSize } = padDataProtoToDivisor(batch, worldSize);
    if (padSize > 0) {
      const before = padded.batch.get('response_mask');
      if (!before)
        throw new DispatchError(`${method}: ${batch.length} rows for ${worldSize} ranks and no response_mask`);
      padded.set('response_mask', before.clone());
      const tail = padded.tensor('response_mask').narrow(0, batch.length, padSize);
      const nothing = zeros(tail.shape, { dtype: tail.dtype, device: tail.device });
      tail.copy_(nothing);
      tail.dispose();
      nothing.dispose();
    }
    const shares = Array.from({ length: worldSize }, (_, rank) => padded.slice(rank, padded.length, worldSize));
    return { perRank: shares.map((share) => [share, ...args.slice(1)]), temporary: [padded, ...shares] };
  },
  collect(results, _, method) {
    const joined = join(results, method);
    if (joined.length > 0 && results.length > 1)
      throw new DispatchError(`${method}: an update returns metrics; rows would come back in another order`);
    return joined;
  },
};

/** Results of ranks as one batch; `metaInfo.metrics` become lists over ranks, also of a single one. */
function join(results: unknown[], method: string): DataProto {
  for (const result of results)
    if (!(result instanceof DataProto)) throw new DispatchError(`${method}: a rank did not return a DataProto`);
  const parts = results as DataProto[];
  if (parts.length === 1) {
    const only = parts[0]!;
    if ('metrics' in only.metaInfo)
      only.metaInfo.metrics = DataProto.concat([
        DataProto.fromDict({ metaInfo: { metrics: only.metaInfo.metrics } }),
      ]).metaInfo.metrics;
    return only;
  }
  try {
    return DataProto.concat(parts);
  } finally {
    for (const part of parts) part.dispose();
  }
}

const modes = new Map<string, DispatchMode>([
  ['one_to_all', oneToAll],
  ['all_to_all', allToAll],
  ['rank_zero', rankZero],
  ['dp', dataParallel],
  ['dp_rows', dataParallelRows],
  ['dp_update', dataParallelUpdate],
]);

/** Adds a mode under a name; a name that exists is refused. */
export function registerDispatchMode(name: string, mode: DispatchMode): void {
  if (modes.has(name)) throw new DispatchError(`there is a dispatch mode '${name}' already`);
  modes.set(name, mode);
}

export function dispatchMode(wanted: string | DispatchMode): DispatchMode {
  if (typeof wanted !== 'string') return wanted;
  const mode = modes.get(wanted);
  if (!mode) throw new DispatchError(`no dispatch mode '${wanted}'; there are: ${[...modes.keys()].join(', ')}`);
  return mode;
}
