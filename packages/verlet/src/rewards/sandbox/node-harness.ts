/**
 * The JavaScript counterpart of the Python harness: `encode`/`decode` and the three modes. It is plain script text because it
 * runs in two engines: Node inside a bubblewrap box and QuickJS. Each binds `receive`, `send`, `load` (which runs source text
 * and returns a function that looks up its top-level names) before it calls `runJob`.
 */
export const javascriptHarness = String.raw`
const isArray = Array.isArray, stringify = JSON.stringify, parse = JSON.parse, entriesOf = Object.entries, prototypeOf = Object.getPrototypeOf;
function encode(value, remember, depth = 0) {
  if (depth > 200) throw new RangeError('value nested too deeply to leave the sandbox');
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (value === undefined) return { u: 1 };
  if (typeof value === 'number') return Number.isSafeInteger(value) && !Object.is(value, -0) ? value : { f: String(value) };
  if (typeof value === 'bigint') return { i: (value < 0n ? '-0x' : '0x') + (value < 0n ? -value : value).toString(16) };
  if (isArray(value)) return Array.from(value, (item) => encode(item, remember, depth + 1));
  if (value instanceof Set) return { s: [...value].map((item) => encode(item, remember, depth + 1)) };
  if (value instanceof Map) return { d: [...value].map(([k, v]) => [encode(k, remember, depth + 1), encode(v, remember, depth + 1)]) };
  if (typeof value === 'object' && (prototypeOf(value) === Object.prototype || prototypeOf(value) === null))
    return { o: entriesOf(value).map(([k, v]) => [k, encode(v, remember, depth + 1)]) };
  return { h: remember(value), n: typeof value };
}
function decode(value, recall) {
  if (isArray(value)) return value.map((item) => decode(item, recall));
  if (value === null || typeof value !== 'object') return value;
  if ('u' in value) return undefined;
  if ('f' in value) return value.f === 'inf' ? Infinity : value.f === '-inf' ? -Infinity : Number(value.f);
  if ('i' in value) return value.i[0] === '-' ? -BigInt(value.i.slice(1)) : BigInt(value.i);
  if ('t' in value) return value.t.map((item) => decode(item, recall));
  if ('s' in value) return new Set(value.s.map((item) => decode(item, recall)));
  if ('d' in value) return new Map(value.d.map(([k, v]) => [decode(k, recall), decode(v, recall)]));
  if ('o' in value) return Object.fromEntries(value.o.map(([k, v]) => [k, decode(v, recall)]));
  if ('h' in value) return recall(value.h, value.n);
  throw new TypeError('unknown tag in ' + stringify(value));
}
function serve(code, port) {
  const objects = [];
  const remember = (value) => objects.push(value) - 1;
  const recall = (handle) => objects[handle];
  const lookup = port.load(code);
  port.send(stringify({ names: null }));
  const target = (request) => {
    if (request.h !== null && request.h !== undefined) {
      const owner = objects[request.h];
      if (request.name === null) return [undefined, owner];
      return [owner, owner[request.name]];
    }
    const [isDefined, found] = lookup(request.name);
    if (isDefined) return [undefined, found];
    const [hasSolution, Solution] = lookup('Solution');
    if (hasSolution) { const instance = new Solution(); return [instance, instance[request.name]]; }
    throw new ReferenceError(request.name + ' is not defined');
  };
  for (let line = port.receive(); line !== null; line = port.receive()) {
    const request = parse(line);
    let reply;
    try {
      const [owner, found] = target(request);
      if (request.do === 'get') reply = { value: typeof found === 'function' ? { h: remember(found), n: 'function' } : encode(found, remember) };
      else {
        const args = decode(request.args, recall);
        const value = request.do === 'new' ? new found(...args) : found.apply(owner, args);
        reply = { value: encode(value, remember), args: args.map((arg) => (isArray(arg) ? encode(arg, remember) : null)) };
      }
    } catch (error) {
      port.complain(error);
      reply = { raised: String(error && error.name), message: String(error && error.message).slice(0, 2000) };
    }
    port.send(stringify(reply));
  }
}
/** Every free name of the tests becomes a stand-in: the scope object claims names the checker's own globals do not have. */
function check(tests, port) {
  port.receive();
  const remotes = new WeakMap();
  const refuse = (value) => {
    if (remotes.has(value)) return remotes.get(value);
    throw new TypeError('a ' + typeof value + ' cannot cross into the program');
  };
  const ask = (what, handle, name, args = []) => {
    port.send(stringify({ do: what, h: handle, name, args: args.map((arg) => encode(arg, refuse)) }));
    const line = port.receive();
    if (line === null) throw new Error('the program ended before it answered ' + name);
    const reply = parse(line);
    if ('raised' in reply) {
      const Kind = { TypeError, RangeError, ReferenceError, SyntaxError }[reply.raised] || Error;
      throw new Kind(String(reply.message));
    }
    (reply.args || []).forEach((after, index) => {
      if (after !== null && isArray(args[index])) args[index].splice(0, args[index].length, ...decode(after, recall));
    });
    return decode(reply.value, recall);
  };
  const stand = (handle, name) => {
    const remote = new Proxy(function () {}, {
      apply: (_target, _this, args) => ask('call', handle, name, args),
      construct: (_target, args) => ask('new', handle, name, args),
      get: (_target, key) => {
        if (typeof key === 'symbol' || key === 'then' || key === 'toJSON') return undefined;
        const owner = handle === null ? refuse(ask('get', null, name)) : handle;
        const value = ask('get', owner, key);
        return typeof value === 'function' && remotes.has(value) ? stand(owner, key) : value;
      },
    });
    if (handle !== null && name === null) remotes.set(remote, handle);
    return remote;
  };
  const recall = (handle) => stand(handle, null);
  const known = new Map();
  const scope = new Proxy(Object.create(null), {
    has: (_target, key) => typeof key === 'string' && !(key in globalThis) && key !== 'require' && key !== 'assert' && key !== 'arguments',
    get: (_target, key) => {
      if (typeof key === 'symbol') return undefined;
      if (!known.has(key)) known.set(key, stand(null, key));
      return known.get(key);
    },
  });
  new Function('scope', 'require', 'assert', 'with (scope) {\n' + tests + '\n}')(scope, port.require, port.require('assert'));
  port.send(stringify({ verdict: 'passed' }));
}
function runJob(job, port) {
  if (job.mode === 'serve') serve(job.code, port);
  else if (job.mode === 'check') check(job.code, port);
  else port.load(job.code);
}
`;

/**
 * For `node -e` inside the box. Descriptors 3 and 4 are the wire. With the argument `fork` this is the warm Node: it loads what
 * programs load, then waits in `serve`, and only its forked children go on from there. Without, one program runs and
 * descriptor 5 holds its job.
 */
export const nodeHarness = String.raw`
const fs = require('fs'), Module = require('module'), util = require('util');
const nativeRead = fs.readSync, nativeWrite = fs.writeSync, nativeExit = process.reallyExit.bind(process);
${javascriptHarness}
let rest = Buffer.alloc(0), isEsm = false, job;
const port = {
  require,
  receive() {
    let at;
    while ((at = rest.indexOf(10)) < 0) {
      const chunk = Buffer.alloc(1 << 16);
      const count = nativeRead(3, chunk, 0, chunk.length, null);
      if (count === 0) return null;
      rest = Buffer.concat([rest, chunk.subarray(0, count)]);
    }
    const line = rest.subarray(0, at).toString('utf8');
    rest = rest.subarray(at + 1);
    return line;
  },
  send(text) {
    let data = Buffer.from(text + '\n');
    while (data.length) data = data.subarray(nativeWrite(4, data));
  },
  complain(error) { process.stderr.write(util.inspect(error) + '\n'); },
  load(code) {
    const main = new Module('/tmp/main.js', null);
    main.filename = '/tmp/main.js';
    main.paths = [];
    process.mainModule = require.main = main;
    if (job.mode === 'script') return main._compile(code, main.filename);
    main._compile(code + '\n;module.__lookup = (__name) => { try { return [true, eval(__name)]; } catch (error) { if (error instanceof ReferenceError) return [false]; throw error; } };', main.filename);
    return main.__lookup;
  },
};
if (process.argv[1] === 'fork') {
  delete process.env.LD_PRELOAD;
  const library = { exports: {} };
  process.dlopen(library, '/proc/self/fd/6');
  for (const name of ['assert', 'buffer', 'events', 'os', 'path', 'readline', 'readline/promises', 'stream', 'string_decoder', 'timers', 'tty', 'net', 'vm']) require(name);
  job = { mode: 'script' };
  port.load('"use strict"; new Map([[1, [2n]]]).get(1).toString();');
  new console.Console(new (require('stream').Writable)({ write(chunk, encoding, done) { done(); } })).log('%s', 1, { warm: [new Map()] });
  const pid = library.exports.serve();
  Object.defineProperty(process, 'pid', { value: pid, writable: false, enumerable: true, configurable: true });
  const { leave } = library.exports, emit = process.emit;
  process.reallyExit = (code) => leave(code | 0);
  // A program that came to its end has said everything: pipes are written synchronously. An error is still to be printed.
  let isAtEnd = false;
  process.emit = function (event, ...rest) {
    if (event === 'beforeExit') isAtEnd = process.listenerCount(event) === 0;
    const answer = emit.call(this, event, ...rest);
    if (event === 'exit' && isAtEnd && !isEsm) leave((process.exitCode ?? rest[0]) | 0);
    return answer;
  };
} else {
  rest = fs.readFileSync(5);
  fs.closeSync(5);
}
const first = port.receive();
if (first === null) nativeExit(0);
job = JSON.parse(first);
process.argv[1] = '/tmp/main.js';
// What the compiler says to import, export and top-level await. As 'node main.mjs' would, such a program runs as a module.
const isModule = (error) => error.code === 'ERR_REQUIRE_ASYNC_MODULE' || error instanceof SyntaxError && /import statement outside a module|Unexpected token 'export'|import\.meta' outside a module|await is only valid in async functions and the top level/.test(error.message);
if (job.mode === 'script') {
  fs.closeSync(3);
  fs.closeSync(4);
  // Node may lose what a pipe has not taken yet when a program exits: by chance, and a reward must not depend on it.
  process.stdout._handle?.setBlocking?.(true);
  try { runJob(job, port); } catch (error) {
    if (!(error instanceof Error && isModule(error))) throw error;
    isEsm = true;
    fs.writeFileSync('/tmp/main.mjs', job.code);
    import('/tmp/main.mjs');
  }
} else {
  runJob(job, port);
  nativeExit(0);
}
`;
