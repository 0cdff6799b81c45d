import { javascriptHarness } from '../node-harness.js';

/** What a small Node program expects, made of strings: standard input and output, `assert`, timers. Runs inside QuickJS. */
export const quickjsPrelude = String.raw`
(function (write, receive, send, stdin) {
  'use strict';
  const show = (value, depth = 0) => {
    if (typeof value === 'string') return depth === 0 ? value : "'" + value + "'";
    if (typeof value === 'bigint') return value + 'n';
    if (typeof value === 'function') return '[Function: ' + (value.name || '(anonymous)') + ']';
    if (value instanceof Error) return value.name + ': ' + value.message + (value.stack ? '\n' + value.stack : '');
    if (value === null || typeof value !== 'object') return Object.is(value, -0) ? '-0' : String(value);
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
  const lines = stdin === '' ? [] : stdin.replace(/\n$/, '').split(/\r\n|\n|\r/);
  /** Listeners are told in a later turn, in the order of the events, whatever the order they came in. */
  const emitter = (speak) => {
    const listeners = {};
    let isStarted = false;
    const emit = (event, ...args) => { for (const listener of (listeners[event] ?? []).slice()) listener(...args); };
    const target = { on(event, listener) {
      (listeners[event] ??= []).push(listener);
      if (!isStarted) { isStarted = true; setImmediate(() => speak(emit)); }
      return target;
    }, once: (event, listener) => target.on(event, listener), removeAllListeners() { return target; }, pause() { return target; }, resume() { return target; } };
    target.addListener = target.on;
    return target;
  };
  const input = emitter((emit) => { if (stdin) emit('data', stdin); emit('end'); emit('close'); });
  Object.assign(input, { fd: 0, isTTY: undefined, setEncoding() { return input; },
    async *[Symbol.asyncIterator]() { if (stdin) yield stdin; } });
  const createInterface = () => {
    const waiting = lines.slice();
    let isClosed = false;
    const face = emitter((emit) => {
      while (waiting.length > 0 && !isClosed) emit('line', waiting.shift());
      emit('close');
    });
    return Object.assign(face, {
      close() { isClosed = true; }, setPrompt() {}, prompt() {},
      question(query, options, answer = options) { write(1, String(query)); if (waiting.length > 0) { const line = waiting.shift(); setImmediate(() => answer(line)); } },
      async *[Symbol.asyncIterator]() { while (waiting.length > 0 && !isClosed) yield waiting.shift(); },
    });
  };
  const ticks = [];
  const runTicks = () => { while (ticks.length > 0) ticks.shift()(); };
  class Exit { constructor(code) { this.exitCode = code; } }
  globalThis.process = { argv: ['node', 'main.js'], env: {}, platform: 'quickjs', stdin: input, exitCode: undefined,
    stdout: { write: (text) => { write(1, String(text)); return true; } }, stderr: { write: (text) => { write(2, String(text)); return true; } },
    exit: (code) => { throw new Exit(code ?? process.exitCode ?? 0); }, nextTick: (callback, ...args) => { ticks.push(() => callback(...args)); }, on() {}, hrtime: Object.assign(() => { const now = Date.now(); return [Math.floor(now / 1000), (now % 1000) * 1e6]; }, { bigint: () => BigInt(Date.now()) * 1000000n }), memoryUsage: () => ({ heapUsed: 0 }) };
  let lineAt = 0;
  globalThis.readline = () => (lineAt >= lines.length ? null : lines[lineAt++]);
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
    readline: { createInterface },
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
  return { run: (text) => runJob(JSON.parse(text), port), nextTimer, runTicks, hasTicks: () => ticks.length > 0, exitCode: () => process.exitCode };
})`;
