// One rank of a group, in a process of its own: node rank.mjs <scenario> <rank> <worldSize> <port>. Prints JSON.
import { DistributedError, liveTensors, ProcessGroup, scope, TcpStore, tensor } from '../../dist/index.js';

const [scenario, ...numbers] = process.argv.slice(2);
const [rank, worldSize, port] = numbers.map(Number);
const host = '127.0.0.1';

// A rank that is stuck must not outlive the test by much.
setTimeout(() => process.exit(3), 60_000).unref();

let ticks = 0;
setInterval(() => ticks++, 20).unref();

const describe = (error) => ({
  typed: error instanceof DistributedError,
  reason: error.reason,
  operation: error.operation,
  rank: error.rank,
  worldSize: error.worldSize,
  timeoutMs: error.timeoutMs,
  message: error.message,
});

async function open(timeoutMs = 20_000) {
  const store = await TcpStore.open({ host, port, timeoutMs });
  return { store, group: await ProcessGroup.open(store, { rank, worldSize, host, timeoutMs }) };
}

async function collectives() {
  const { store, group } = await open();
  const results = {};
  for (const operation of ['sum', 'avg', 'max', 'min', 'product']) {
    for (const dtype of ['float32', 'float64', 'bfloat16', 'float16']) {
      const mine = tensor([rank + 1, 10 * (rank + 1)], { dtype });
      await group.allReduce(mine, operation);
      results[operation] = [...(results[operation] ?? []), mine.toArray()];
      mine.dispose();
    }
  }
  const counts = tensor([rank, 2 ** 40], { dtype: 'int64' });
  await group.allReduce(counts);
  results.int64 = counts.toArray();
  await group.allReduce(counts, 'avg').catch((error) => {
    results.integerAverage = error.message;
  });
  const block = tensor([
    [rank, rank],
    [rank, rank + 0.5],
  ]);
  const gathered = await group.allGather(block);
  results.gathered = gathered.toNested();
  const wide = tensor(Array.from({ length: 2 * worldSize }, (_, k) => k + 100 * rank));
  const part = await group.reduceScatter(wide);
  results.scattered = part.toArray();
  const mean = await group.reduceScatter(wide, 'avg');
  results.scatteredMean = mean.toArray();
  const told = tensor([rank, rank]);
  await group.broadcast(told, worldSize - 1);
  results.told = told.toArray();
  for (const value of [counts, block, gathered, wide, part, mean, told]) value.dispose();
  scope(() => {
    results.sync = [
      group.allReduceSync(tensor([rank + 1])).item(),
      group.allGatherSync(tensor([rank])).toArray(),
      group.reduceScatterSync(tensor(Array(worldSize).fill(1))).toArray(),
      group.broadcastSync(tensor([rank]), 0).item(),
    ];
    const transposed = tensor([
      [1, 2],
      [3, 4],
    ]).t();
    try {
      group.allReduceSync(transposed);
    } catch (error) {
      results.gaps = error.message;
    }
  });
  group.barrierSync();
  // Many at once stay in order; a tensor may be freed on this side while its collective runs.
  const many = Array.from({ length: 50 }, (_, k) => tensor([k]));
  const gathering = many.map((value) => group.allGather(value));
  for (const value of many) value.dispose();
  results.many = (await Promise.all(gathering)).map((value) => {
    const numbers = value.toArray();
    value.dispose();
    return numbers;
  });
  await store.add('arrived', 1);
  await group.barrier();
  results.arrived = await store.add('arrived', 0);
  results.live = liveTensors().count;
  await group.close();
  await store.close();
  return results;
}

/** Rank 1 is gone, killed or stuck while the others reduce. */
async function failing(how) {
  const { group } = await open(2000);
  await group.barrier();
  if (rank === 1) {
    if (how === 'killed') process.kill(process.pid, 'SIGKILL');
    await new Promise((resolve) => setTimeout(resolve, 50_000));
  }
  const mine = tensor([1, 2, 3]);
  const before = ticks;
  try {
    await group.allReduce(mine);
    return { error: null };
  } catch (error) {
    return { error: describe(error), ticks: ticks - before };
  }
}

/** Rank 1 never comes. */
async function alone() {
  const store = await TcpStore.open({ host, port, timeoutMs: 20_000 });
  try {
    await ProcessGroup.open(store, { rank, worldSize, host, timeoutMs: 1500 });
    return { error: null };
  } catch (error) {
    return { error: describe(error), ticks };
  }
}

/** Nobody sets the key. */
async function late() {
  const store = await TcpStore.open({ host, port, timeoutMs: 20_000 });
  return { error: await store.get('never', { timeoutMs: 300 }).then(() => null, describe) };
}

/** Nobody serves the store. */
async function unserved() {
  return { error: await TcpStore.open({ host, port: 9, timeoutMs: 1000 }).then(() => null, describe) };
}

const scenarios = {
  collectives,
  killed: () => failing('killed'),
  stuck: () => failing('stuck'),
  alone,
  late,
  unserved,
};
const outcome = await scenarios[scenario]();
await new Promise((resolve) => process.stdout.write(JSON.stringify(outcome), resolve));
process.exit(0);
