import { javascriptHarness } from '../node-harness.js';
import { channelSource } from './channel.js';

/** What a small Node program expects, made of strings: standard input and output, `assert`, timers. Runs inside QuickJS. */
const prelude = String.raw`
(function (write, receive, send, stdin) {
  'use strict';
  const show = (value, depth = 0) => {
    if (typeof value === 'string') return depth === 0 ? value : "'" + value + "'";
    if (typeof value === 'bigint') return value + 'n';
    if (typeof value === 'function') return '[Function: ' + (value.name || '(anonymous)') + ']';
    if (value instanceof Error) return value.name + ': ' + value.message + (value.stack ? '\n' + value.stack : '');
    if (value === null || typeof value !== 'object') return String(value);
    if (depth > 2) return Array.isArray(value) ? '[Array]' : '[Object]';
    if (Array.isArray(value)) return value.length === 0 ? '[]' : '[ ' + value.map((item) => show(item, depth + 1)).join(', ') + ' ]';
    if (value instanceof Map) return 'Map(' + value.size + ') {' + [...value].map(([k, v]) => ' ' + show(k, depth + 1) + ' => ' + show(v, depth + 1)).join(',') + ' }';
    if (value instanceof Set) return 'Set(' + value.size + ') {' + [...value].map((v) => ' ' + show(v, depth + 1)).join(',') + ' }';
    const inside = Object.entries(value).map(([k, v]) => k + ': ' + show(v, depth + 1));
    return inside.length === 0 ? '{}' : '{ ' + inside.join(', ') + ' }';
  };
  const line = (fd) => (...values) => write(fd, values.map((value) => show(value)).join(' ') + '\n');
  globalThis.console = { log: line(1), info: line(1), debug: line(1), error: line(2), warn: line(2) };
  globalThis.print = console.log;
  const timers = [];
  let serial = 0;
  globalThis.setTimeout = (callback, delay = 0, ...args) => { timers.push({ id: ++serial, due: Number(delay) || 0, run: () => callback(...args) }); return serial; };
  globalThis.setImmediate = (callback, ...args) => setTimeout(callback, 0, ...args);
  globalThis.clearTimeout = (id) => { const at = timers.findIndex((timer) => timer.id === id); if (at >= 0) timers.splice(at, 1); };
  globalThis.queueMicrotask = (callback) => { Promise.resolve().then(callback); };
  const nextTimer = () => {
    if (timers.length === 0) return false;
    timers.sort((a, b) => a.due - b.due || a.id - b.id);
    timers.shift().run();
    return true;
  };
  const handlers = (fire) => { const target = { on(event, callback) { fire(event, callback); return target; }, once: (e, c) => target.on(e, c), setEncoding() { return target; }, resume() { return target; }, close() {} }; return target; };
  const input = handlers((event, callback) => setImmediate(() => { if (event === 'data' && stdin) callback(stdin); else if (event === 'end') callback(); }));
  class Exit { constructor(code) { this.exitCode = code; } }
  globalThis.process = { argv: ['node', 'main.js'], env: {}, platform: 'quickjs', stdin: input, exitCode: undefined,
    stdout: { write: (text) => { write(1, String(text)); return true; } }, stderr: { write: (text) => { write(2, String(text)); return true; } },
    exit: (code) => { throw new Exit(code ?? process.exitCode ?? 0); }, nextTick: (callback, ...args) => queueMicrotask(() => callback(...args)), on() {} };
  const lines = stdin.replace(/\n$/, '').split('\n');
  let lineAt = 0;
  globalThis.readline = () => (stdin === '' || lineAt >= lines.length ? null : lines[lineAt++]);
  const same = (a, b) => {
    if (Object.is(a, b)) return true;
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
    if (Array.isArray(a) !== Array.isArray(b)) return false;
    if (a instanceof Map && b instanceof Map) return a.size === b.size && [...a].every(([k, v]) => b.has(k) && same(v, b.get(k)));
    if (a instanceof Set && b instanceof Set) return a.size === b.size && [...a].every((v) => b.has(v) || [...b].some((w) => same(v, w)));
    const keys = Object.keys(a);
    return keys.length === Object.keys(b).length && keys.every((key) => Object.prototype.hasOwnProperty.call(b, key) && same(a[key], b[key]));
  };
  class AssertionError extends Error { get name() { return 'AssertionError'; } }
  const claim = (holds, message, fallback) => { if (!holds) throw message instanceof Error ? message : new AssertionError(message ?? fallback); };
  const versus = (a, b) => show(a, 1) + ' against ' + show(b, 1);
  const assert = (value, message) => claim(value, message, 'not true');
  Object.assign(assert, { ok: assert, AssertionError,
    equal: (a, b, m) => claim(a == b, m, versus(a, b)), notEqual: (a, b, m) => claim(a != b, m, versus(a, b)),
    strictEqual: (a, b, m) => claim(Object.is(a, b), m, versus(a, b)), notStrictEqual: (a, b, m) => claim(!Object.is(a, b), m, versus(a, b)),
    deepEqual: (a, b, m) => claim(same(a, b), m, versus(a, b)), deepStrictEqual: (a, b, m) => claim(same(a, b), m, versus(a, b)),
    notDeepStrictEqual: (a, b, m) => claim(!same(a, b), m, versus(a, b)),
    throws: (run, m) => { try { run(); } catch { return; } throw new AssertionError(typeof m === 'string' ? m : 'did not throw'); },
    fail: (m) => claim(false, m, 'failed') });
  assert.strict = assert;
  const read = (path) => {
    if (path !== 0 && path !== '/dev/stdin') throw new Error('ENOENT: no files in this sandbox: ' + path);
    return stdin;
  };
  const modules = { assert, fs: { readFileSync: read, writeSync: (fd, text) => { write(fd, String(text)); return text.length; } },
    readline: { createInterface: () => { const face = handlers((event, callback) => setImmediate(() => {
      if (event === 'line' && stdin !== '') for (const text of lines) callback(text);
      else if (event === 'close') callback();
    })); return face; } },
    util: { inspect: (value) => show(value, 1) } };
  const require = (name) => {
    const found = modules[String(name).replace(/^node:/, '').replace(/^assert\/strict$/, 'assert')];
    if (!found) throw new Error("Cannot find module '" + name + "' (this sandbox has assert, fs for standard input, readline, util)");
    return found;
  };
  globalThis.require = require;
  ${javascriptHarness}
  const port = { require, receive, send, complain: (error) => write(2, show(error) + '\n'),
    load(code) {
      const module = { exports: {} };
      require.main = module;
      return new Function('require', 'module', 'exports', code + '\n;return (__name) => { try { return [true, eval(__name)]; } catch (error) { if (error instanceof ReferenceError) return [false]; throw error; } };')(require, module, module.exports);
    } };
  return { run: (text) => runJob(JSON.parse(text), port), nextTimer, exitCode: () => process.exitCode };
})`;

/** QuickJS in a Node process of its own; a new runtime for every program. */
export const quickjsChildSource = String.raw`
${channelSource}
const { getQuickJS } = await import(process.argv[process.argv.length - 1]);
const quickjs = await getQuickJS();
const prelude = ${JSON.stringify(prelude)};
delete globalThis.fetch;
writeFrame({ ready: true });

let isBroken = false;
function runProgram(nonce, stdin, job, outputs) {
  const deadline = Date.now() + job.limits.timeoutMs;
  const sizes = [0, 0], kept = [];
  let why;
  const runtime = quickjs.newRuntime({ memoryLimitBytes: job.limits.memoryMb * (1 << 20), maxStackSizeBytes: 1 << 20,
    interruptHandler: () => { if (Date.now() > deadline) why ??= 'timeout'; return why !== undefined; } });
  const context = runtime.newContext();
  const keep = (handle) => { kept.push(handle); return handle; };
  class Raised { constructor(handle) { this.detail = context.dump(keep(handle)); } }
  const value = (result) => { if (result.error) throw new Raised(result.error); return keep(result.value); };
  const capture = (fd, text) => {
    const index = fd === 2 ? 1 : 0;
    const room = job.limits.outputBytes - sizes[index];
    sizes[index] += Buffer.byteLength(text);
    if (sizes[index] > job.limits.outputBytes) { why ??= 'output-limit'; text = text.slice(0, Math.max(0, room)); }
    outputs[index] += text;
  };
  try {
    const write = keep(context.newFunction('write', (fd, text) => { capture(context.getNumber(fd), context.getString(text)); }));
    const receive = keep(context.newFunction('receive', () => { const line = receiveReply(); return line === null ? context.null : context.newString(line); }));
    const send = keep(context.newFunction('send', (text) => { writeFrame({ nonce, wire: context.getString(text) }); }));
    const make = value(context.evalCode(prelude, 'sandbox.js'));
    const program = value(context.callFunction(make, context.undefined, write, receive, send, keep(context.newString(stdin))));
    const call = (name, ...args) => value(context.callFunction(keep(context.getProp(program, name)), program, ...args));
    call('run', keep(context.newString(JSON.stringify(job))));
    for (let more = true; more && why === undefined; ) {
      const jobs = runtime.executePendingJobs();
      if (jobs.error) throw new Raised(jobs.error);
      more = context.dump(call('nextTimer')) === true || runtime.hasPendingJob();
    }
    const code = Number(context.dump(call('exitCode')) ?? 0);
    return why ? { status: why, exitCode: null } : { status: code === 0 ? 'ok' : 'error', exitCode: code };
  } catch (error) {
    if (!(error instanceof Raised)) throw error;
    const { detail } = error;
    if (why) return { status: why, exitCode: null };
    if (detail && typeof detail === 'object' && 'exitCode' in detail) {
      const code = Number(detail.exitCode) || (job.mode === 'script' ? 0 : 1);
      return { status: code === 0 ? 'ok' : 'error', exitCode: code };
    }
    capture(2, (detail && detail.message !== undefined ? detail.name + ': ' + detail.message + '\n' + (detail.stack ?? '') : String(detail)) + '\n');
    return { status: detail && detail.message === 'out of memory' ? 'memory' : 'error', exitCode: 1 };
  } finally {
    // QuickJS asserts that nothing is left; after a stack overflow something is. Then this process has run its last program.
    try {
      for (const handle of kept.reverse()) if (handle.alive) handle.dispose();
      context.dispose();
      runtime.dispose();
    } catch { isBroken = true; }
  }
}

for (let text = readLine(); text !== null; text = readLine()) {
  const { nonce, stdin = '', ...job } = JSON.parse(text);
  if (!('code' in job)) continue;
  const began = performance.now();
  const outputs = ['', ''];
  let outcome = { status: 'error', exitCode: 1 };
  try { outcome = runProgram(nonce, stdin, job, outputs); } catch (error) { outputs[1] += String(error); isBroken = true; }
  const result = { ...outcome, stdout: outputs[0], stderr: outputs[1], durationMs: performance.now() - began };
  writeFrame({ nonce, result, dirty: isBroken || (outcome.status !== 'ok' && outcome.status !== 'error') });
}
leave(0);
`;
