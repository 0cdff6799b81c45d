// Node's side of the bench; measure.py is the same in Python. Prints JSON: name → best time of one call in microseconds.
import { AdamW, arange, aten, liveTensors, noGrad, ones, scope, setThreads } from '../dist/index.js';

const [threads, clock] = [Number(process.argv[2]), process.argv[3]];

/** Microseconds; CPU time of the process on request, because a busy machine disturbs it less than the clock on the wall. */
function now() {
  if (clock !== 'cpu') return performance.now() * 1000;
  const { user, system } = process.cpuUsage();
  return user + system;
}

const times = {};

/** Many short windows: on a machine with other work on it some are undisturbed. */
function measure(name, callsPerRound, rounds, body) {
  for (let k = 0; k < callsPerRound * 3; k++) body();
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round++) {
    const start = now();
    for (let k = 0; k < callsPerRound; k++) body();
    best = Math.min(best, (now() - start) / callsPerRound);
  }
  times[name] = best;
}

setThreads(1);
const [a, b] = [ones([4]), ones([4])];
const [row, square] = [ones([1, 16]), ones([16, 16])];
measure('tiny add', 1000, 200, () => a.add(b).dispose());
measure('tiny add in place', 1000, 200, () => a.add_(b));
measure('tiny add, ten in a scope', 100, 200, () =>
  scope(() => {
    for (let k = 0; k < 10; k++) a.add(b);
  }),
);
measure('tiny view', 1000, 200, () => a.unsqueeze(0).dispose());
measure('tiny linear', 1000, 200, () => row.linear(square).dispose());

setThreads(threads);
const big = ones([1024, 1024]);
measure('matmul 1024 fp32', 1, 20, () => big.mm(big).dispose());

// --- A small transformer ----------------------------------------------------------------------------------------------
const [layers, width, heads, hidden, vocabulary, batch, length] = [4, 128, 4, 384, 512, 8, 128];
const parameters = new Map();

/** Numbers that look random and are the same in Python. */
function parameter(name, ...shape) {
  const count = shape.reduce((x, y) => x * y, 1);
  const seed = parameters.size;
  const made = scope(() =>
    arange(0, count, 1, { dtype: 'float64' })
      .mul(12.9898)
      .add(seed * 78.233)
      .sin()
      .mul(43758.5453)
      .remainder(1)
      .sub(0.5)
      .mul(0.1)
      .float()
      .reshape(...shape),
  );
  parameters.set(name, made.setRequiresGrad());
}

parameter('embedding', vocabulary, width);
parameter('position', length, width);
for (let layer = 0; layer < layers; layer++) {
  parameter(`${layer}.qkv`, 3 * width, width);
  parameter(`${layer}.out`, width, width);
  parameter(`${layer}.gate`, 2 * hidden, width);
  parameter(`${layer}.down`, width, hidden);
}
parameter('head', vocabulary, width);

const at = (name) => parameters.get(name);
const tokens = scope(() =>
  arange(0, batch * (length + 1))
    .mul(7919)
    .remainder(vocabulary)
    .reshape(batch, length + 1),
);
const inputs = tokens.slice(1, 0, length);
const targets = scope(() => tokens.slice(1, 1).reshape(-1));
const one = ones([width]);

function block(x, layer) {
  const [q, k, v] = aten
    .rms_norm(x, [width], one, 1e-6)
    .linear(at(`${layer}.qkv`))
    .view(batch, length, 3, heads, width / heads)
    .permute(2, 0, 3, 1, 4)
    .unbind(0);
  const attended = aten.scaled_dot_product_attention(q, k, v, null, 0, true);
  const mixed = x.add(
    attended
      .transpose(1, 2)
      .reshape(batch, length, width)
      .linear(at(`${layer}.out`)),
  );
  const [gate, up] = aten
    .rms_norm(mixed, [width], one, 1e-6)
    .linear(at(`${layer}.gate`))
    .chunk(2, -1);
  return mixed.add(
    gate
      .silu()
      .mul(up)
      .linear(at(`${layer}.down`)),
  );
}

function forward() {
  let x = aten.embedding(at('embedding'), inputs).add(at('position'));
  // A scope for each layer: memory that is freed early is used again while it is in the cache.
  for (let layer = 0; layer < layers; layer++) x = scope(() => block(x, layer));
  const logits = aten.rms_norm(x, [width], one, 1e-6).linear(at('head'));
  return aten.cross_entropy_loss(logits.view(-1, vocabulary), targets);
}

const optimizer = new AdamW(parameters, { lr: 1e-3, weightDecay: 0.01 });
function step() {
  return scope(() => {
    const loss = forward();
    loss.backward();
    optimizer.step();
    optimizer.zeroGrad();
    return loss.item();
  });
}

let loss = 0;
for (let k = 0; k < 5; k++) loss = step();
measure('transformer train step', 1, 20, step);
noGrad(() => measure('transformer forward', 1, 20, () => scope(() => forward().item())));
console.log(JSON.stringify({ times, loss, live: liveTensors().count }));
