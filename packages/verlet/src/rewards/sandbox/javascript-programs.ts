/** What people and models write for programming contests in JavaScript, and what it must print. Input: `3\n1 2 3\n`. */
export interface JavascriptProgram {
  name: string;
  code: string;
  stdout: string;
  /** 0 if not given. */
  exitCode?: number;
  /** Needs more of Node than the WebAssembly level has. */
  onlyNode?: true;
}

export const javascriptInput = '3\n1 2 3\n';

export const javascriptPrograms: JavascriptProgram[] = [
  {
    name: 'readFileSync(0)',
    code: `const [n, items] = require('fs').readFileSync(0, 'utf8').trim().split('\\n');
console.log(Number(n), items.split(' ').map(Number).reduce((a, b) => a + b, 0));`,
    stdout: '3 6\n',
  },
  {
    name: 'readFileSync of /dev/stdin, as bytes',
    code: `const text = require('node:fs').readFileSync('/dev/stdin').toString(); console.log(text.split('\\n').length);`,
    stdout: '3\n',
  },
  {
    name: 'process.stdin events',
    code: `let text = ''; process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk) => { text += chunk; });
process.stdin.on('end', () => { const lines = text.trim().split('\\n'); console.log(lines[1].split(' ').reverse().join(' ')); });`,
    stdout: '3 2 1\n',
  },
  {
    name: 'process.stdin chunks as buffers',
    code: `const chunks = []; process.stdin.on('data', (c) => chunks.push(c)).on('end', () => console.log(Buffer.concat(chunks).length));`,
    stdout: '8\n',
    onlyNode: true,
  },
  {
    name: 'process.stdin as async iterator',
    code: `(async () => { let text = ''; for await (const chunk of process.stdin) text += chunk; console.log(text.length); })();`,
    stdout: '8\n',
  },
  {
    name: 'readline with line and close',
    code: `const rl = require('readline').createInterface({ input: process.stdin, output: process.stdout, terminal: false });
const lines = []; rl.on('line', (line) => lines.push(line)); rl.on('close', () => console.log(lines.join('|')));`,
    stdout: '3|1 2 3\n',
  },
  {
    name: 'readline as async iterator',
    code: `async function main() { const rl = require('readline').createInterface({ input: process.stdin });
let sum = 0; for await (const line of rl) for (const word of line.split(' ')) sum += +word; console.log(sum); } main();`,
    stdout: '9\n',
  },
  {
    name: 'readline question',
    code: `const rl = require('readline').createInterface({ input: process.stdin });
rl.question('', (n) => rl.question('', (rest) => { console.log(n + ':' + rest); rl.close(); }));`,
    stdout: '3:1 2 3\n',
  },
  {
    name: 'readline that closes itself after the first line',
    code: `const rl = require('readline').createInterface({ input: process.stdin });
rl.on('line', (line) => { console.log('got', line); rl.close(); process.exit(0); });`,
    stdout: 'got 3\n',
  },
  {
    name: 'awaiting an async main with timers',
    code: `const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => { setTimeout(() => console.log('late'), 30); await sleep(5); console.log('early'); })();`,
    stdout: 'early\nlate\n',
  },
  {
    name: 'order of ticks, microtasks, immediates',
    code: `setTimeout(() => console.log(4), 0); Promise.resolve().then(() => console.log(3)); process.nextTick(() => console.log(2)); console.log(1);`,
    stdout: '1\n2\n3\n4\n',
  },
  {
    name: 'BigInt',
    code: `let f = 1n; for (let i = 1n; i <= 25n; i++) f *= i; console.log(f.toString(), String(2n ** 64n), Number(7n / 2n));`,
    stdout: '15511210043330985984000000 18446744073709551616 3\n',
  },
  {
    name: 'Map, Set, spread, destructuring, labels',
    code: `const count = new Map(); for (const c of 'banana') count.set(c, (count.get(c) ?? 0) + 1);
const [[top]] = [...count].sort(([, a], [, b]) => b - a); outer: for (const a of [1, 2]) for (const b of [1, 2]) if (a === b) continue outer;
console.log(top, [...new Set([3, 3, 1])].join(), Object.fromEntries(count).n);`,
    stdout: 'a 3,1 2\n',
  },
  {
    name: 'sort is stable; the default order is by text',
    code: `const rows = Array.from({ length: 600 }, (_, i) => ({ key: i % 3, i })); rows.sort((a, b) => a.key - b.key);
console.log(rows.every((row, at) => at === 0 || rows[at - 1].key < row.key || rows[at - 1].i < row.i), [10, 9, 1].sort().join());`,
    stdout: 'true 1,10,9\n',
  },
  {
    name: 'classes with private fields, getters, generators, optional chaining',
    code: `class Heap { #items = []; push(x) { this.#items.push(x); this.#items.sort((a, b) => a - b); } get size() { return this.#items.length; } *[Symbol.iterator]() { yield* this.#items; } static of(...xs) { const h = new this(); xs.forEach((x) => h.push(x)); return h; } }
console.log([...Heap.of(3, 1, 2)].join(''), Heap.of(1).size, undefined?.x ?? 'none', [1, [2, [3]]].flat(Infinity).at(-1));`,
    stdout: '123 1 none 3\n',
  },
  {
    name: 'typed arrays and bit tricks',
    code: `const sieve = new Uint8Array(1000).fill(1); let primes = 0; for (let i = 2; i < 1000; i++) if (sieve[i]) { primes++; for (let j = i * i; j < 1000; j += i) sieve[j] = 0; }
console.log(primes, (1 << 31) >>> 0, Math.imul(0xffffffff, 5), Math.clz32(1), new Float64Array([0.1])[0] + 0.2);`,
    stdout: '168 2147483648 -5 31 0.30000000000000004\n',
  },
  {
    name: 'numbers as text',
    code: `console.log(1e21, 1 / 3, -0, (25).toString(2), (0.000001234).toFixed(8), (1234.5678).toFixed(2), parseInt('12px'), Number(''), NaN);`,
    stdout: '1e+21 0.3333333333333333 -0 11001 0.00000123 1234.57 12 0 NaN\n',
  },
  {
    name: 'regular expressions: named groups, lookbehind, sticky, unicode',
    code: `console.log('2024-05-01'.replace(/(?<y>\\d+)-(?<m>\\d+)-(?<d>\\d+)/, '$<d>.$<m>.$<y>'), 'a1b2'.match(/(?<=b)\\d/)[0], [...'x😀'].length, 'aXbX'.replaceAll('X', '-'));`,
    stdout: '01.05.2024 2 2 a-b-\n',
  },
  {
    name: 'console.log of arrays and objects',
    code: `console.log([1, 2, 3], { a: 1, b: 'x' }, ['a'], [], {}, null, undefined, true, new Map([[1, 'a']]), new Set([1]), [[1, [2]], { c: { d: {} } }]);
console.log('%d and %s of %i', 1.5, 'two', 3.9, 'rest'); console.log(); console.log([undefined, null, -0, 1n, () => 1]);`,
    stdout: `[ 1, 2, 3 ] { a: 1, b: 'x' } [ 'a' ] [] {} null undefined true Map(1) { 1 => 'a' } Set(1) { 1 } [ [ 1, [ 2 ] ], { c: { d: {} } } ]
1.5 and two of 3 rest

[ undefined, null, -0, 1n, [Function (anonymous)] ]
`,
    onlyNode: true,
  },
  {
    name: 'much output through process.stdout.write',
    code: `let out = ''; for (let i = 0; i < 60000; i++) out += i + '\\n'; process.stdout.write(out.slice(0, 0)); process.stdout.write(out); console.log(out.length);`,
    stdout: `${Array.from({ length: 60_000 }, (_, index) => `${index}\n`).join('')}348890\n`,
  },
  {
    name: 'much output, then process.exit at once',
    code: `console.log('x'.repeat(400000)); process.exit(0);`,
    stdout: `${'x'.repeat(400_000)}\n`,
  },
  { name: 'exit code', code: `console.log('out'); process.exit(3); console.log('not');`, stdout: 'out\n', exitCode: 3 },
  {
    name: 'exitCode set, then the end; exit handlers run',
    code: `process.exitCode = 4; process.on('exit', (code) => console.log('bye', code)); console.log('end');`,
    stdout: 'end\nbye 4\n',
    exitCode: 4,
    onlyNode: true,
  },
  { name: 'an uncaught error', code: `console.log('before'); null.x;`, stdout: 'before\n', exitCode: 1 },
  {
    name: 'an unhandled rejection',
    code: `console.log('before'); (async () => { throw new Error('x'); })(); setTimeout(() => console.log('not'), 50);`,
    stdout: 'before\n',
    exitCode: 1,
    onlyNode: true,
  },
  {
    name: 'caught errors have their names and messages',
    code: `try { null.f(); } catch (e) { console.log(e.name, e instanceof TypeError); } try { JSON.parse('{'); } catch (e) { console.log(e.constructor.name); }
try { undefinedName; } catch ({ name }) { console.log(name); } finally { console.log('done'); }`,
    stdout: 'TypeError true\nSyntaxError\nReferenceError\ndone\n',
  },
  { name: 'a syntax error', code: 'let x = ;', stdout: '', exitCode: 1 },
  {
    name: 'recursion ten thousand deep, and a caught overflow',
    code: `const depth = (n) => (n === 0 ? 0 : 1 + depth(n - 1)); console.log(depth(10000)); try { (function f() { f(); })(); } catch (e) { console.log(e instanceof RangeError); }`,
    stdout: '10000\ntrue\n',
    onlyNode: true,
  },
  {
    name: 'import statements and top-level await',
    code: `import { readFileSync } from 'fs'; import readline from 'node:readline';
const text = await Promise.resolve(readFileSync(0, 'utf8')); console.log(text.length, typeof readline.createInterface);`,
    stdout: '8 function\n',
    onlyNode: true,
  },
  {
    name: 'import and export statements alone',
    code: `import fs from 'fs';\nexport const lines = fs.readFileSync(0, 'utf8').split('\\n');\nconsole.log(lines.length);`,
    stdout: '3\n',
    onlyNode: true,
  },
  {
    name: 'fs promises, zlib and crypto (the thread pool)',
    code: `const { promises: fs } = require('fs'); (async () => { await fs.writeFile('/tmp/a', 'abc'); const text = await fs.readFile('/tmp/a', 'utf8');
const zipped = await require('util').promisify(require('zlib').gzip)(text); const hash = require('crypto').createHash('sha256').update(text).digest('hex');
console.log(text, require('zlib').gunzipSync(zipped).toString(), hash.slice(0, 8)); })();`,
    stdout: 'abc abc ba7816bf\n',
    onlyNode: true,
  },
  {
    name: 'a worker thread and a child process',
    code: `const { Worker } = require('worker_threads'); const worker = new Worker('require("worker_threads").parentPort.postMessage(6 * 7)', { eval: true });
worker.on('message', (value) => { console.log(value, require('child_process').execFileSync('echo', ['hello']).toString().trim()); });`,
    stdout: '42 hello\n',
    onlyNode: true,
  },
  {
    name: 'much garbage and a warm loop',
    code: `let total = 0; for (let round = 0; round < 300; round++) { const items = Array.from({ length: 3000 }, (_, i) => ({ i, text: 'x' + i })); total += items.filter((item) => item.i % 3 === 0).length; }
const f = (n) => (n < 2 ? n : f(n - 1) + f(n - 2)); console.log(total, f(24));`,
    stdout: '300000 46368\n',
  },
  {
    name: 'argv, main module, globals',
    code: `console.log(process.argv.length, require.main === module, typeof globalThis, typeof structuredClone, typeof Buffer, typeof URL, this === module.exports, __filename);`,
    stdout: '2 true object function function function true /tmp/main.js\n',
    onlyNode: true,
  },
];
