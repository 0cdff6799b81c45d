/** How one call of the controller becomes one call per rank, and their results one result. */
import { workload } from '../algorithms/index.js';
import { DataProto, padDataProtoToDivisor } from '../protocol/index.js';
import type { Dispatched, DispatchMode } from '../workers/register.js';
import { dealRows, rowLengths } from './deal.js';

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

/** Shares of equal size; rows are added by cycling from row 0 where the ranks do not divide them. */
function deal(args: unknown[], worldSize: number, method: string): Dispatched & { state: DealState } {
  const batch = batchOf(args, method);
  const { padded } = padDataProtoToDivisor(batch, worldSize);
  const lengths = rowLengths(padded);
  const shares = dealRows(padded.length, worldSize, lengths && Array.from(lengths, workload));
  const parts = shares.map((rows) => padded.selectIdxs(rows));
  padded.dispose();
  return {
    perRank: parts.map((part) => [part, ...args.slice(1)]),
    temporary: parts,
    state: { shares, length: batch.length },
  };
}

interface DealState {
  /** Rows of each rank; numbers from `length` on are rows that were added. */
  shares: number[][];
  length: number;
}

/** Every rank computes the same number of rows, so that all take part in collectives; results come back in the rows' order. */
const dataParallel: DispatchMode = {
  dispatch(args, worldSize, method) {
    if (batchOf(args, method).length === 0 || worldSize === 1)
      return { perRank: Array.from({ length: worldSize }, () => args) };
    return deal(args, worldSize, method);
  },
  collect(results, { state }, method) {
    const joined = join(results, method);
    if (!state || joined.length === 0) return joined;
    const { shares, length } = state as DealState;
    const position = new Map(shares.flat().map((row, k) => [row, k]));
    if (joined.length !== position.size)
      throw new DispatchError(`${method}: ranks returned ${joined.length} rows for ${position.size}`);
    const ordered = joined.selectIdxs(Array.from({ length }, (_, row) => position.get(row)!));
    joined.dispose();
    return ordered;
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
 * For methods that learn. `dealRows` keeps mini-batches as they are; rows added to make the deal even have an empty
 * `response_mask`, so that nothing is learnt from them and no count sees them. Results are metrics, not rows.
 */
const dataParallelUpdate: DispatchMode = {
  dispatch(args, worldSize, method) {
    batchOf(args, method);
    if (worldSize === 1) return { perRank: [args] };
    const dealt = deal(args, worldSize, method);
    const { shares, length } = dealt.state;
    for (const [rank, part] of dealt.temporary!.entries())
      for (const [k, row] of shares[rank]!.entries()) if (row >= length) eraseMask(part, k, method);
    return { perRank: dealt.perRank, temporary: dealt.temporary };
  },
  collect(results, _, method) {
    const joined = join(results, method);
    if (joined.length > 0 && results.length > 1)
      throw new DispatchError(`${method}: an update returns metrics, its rows would come back in another order`);
    return joined;
  },
};

function eraseMask(part: DataProto, row: number, method: string): void {
  const mask = part.batch.get('response_mask');
  if (!mask) throw new DispatchError(`${method}: the ranks do not divide the rows, and there is no response_mask`);
  const view = mask.select(0, row);
  view.zero_();
  view.dispose();
}

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
