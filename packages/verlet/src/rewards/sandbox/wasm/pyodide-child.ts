import { pythonHarness } from '../python-harness.js';
import { channelSource } from './channel.js';

/**
 * Pyodide in a Node process of its own. Pyodide alone is no boundary (its `js` module is Node's global object), so: an empty
 * global object for Python, no `pyodide_js`, no code from strings, no network globals, and around it all the permission model.
 * There is no fork here: after each program the memory of the interpreter is put back as it was at the start, the scratch folder is
 * emptied, and a program that touched another file, or did not end well, was the last of its process.
 */
export const pyodideChildSource = String.raw`
${channelSource}
const [pyodideUrl, indexURL, memoryText] = process.argv.slice(-3);
const memoryMb = Number(memoryText);
let memoryBytes = memoryMb * (1 << 20);
const grow = WebAssembly.Memory.prototype.grow;
// The wasm file allows 4 GiB. Refusing to grow makes malloc fail, which Python reports as MemoryError.
WebAssembly.Memory.prototype.grow = function (pages) {
  if (this.buffer.byteLength + pages * 65536 > memoryBytes) throw new RangeError('memory limit');
  return grow.call(this, pages);
};
// Emscripten asks this for the numbers of open flags only; the permission model refuses the real one.
process.binding = () => ({ fs: fs.constants });
const { loadPyodide } = await import(pyodideUrl);
const jsglobals = Object.create(null);
const pyodide = await loadPyodide({ indexURL, jsglobals, stdout() {}, stderr() {}, env: { HOME: '/tmp', LANG: 'C.UTF-8', PYTHONHASHSEED: '0' } });
pyodide.runPython(${'`'}
import ast, atexit, bisect, collections, copy, datetime, decimal, fractions, functools, heapq, itertools, math, operator
import random, re, statistics, string, typing, gc, os, sys
os.environ.pop('_', None)
random.seed(0)
for _name in [name for name in sys.modules if name.split('.')[0] in ('js', 'pyodide_js')]: del sys.modules[_name]
sys.meta_path[:] = [finder for finder in sys.meta_path if 'Js' not in type(finder).__name__ and 'js' not in getattr(finder, '__module__', '')]
class _NoHost:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in ('js', 'pyodide_js', '_pyodide_core', 'pyodide', '_pyodide', 'pyodide_kernel'):
            raise ModuleNotFoundError('No module named ' + repr(name))
sys.meta_path.insert(0, _NoHost())
${'`'});
const space = pyodide.globals.get('dict')();
pyodide.runPython(${'`'}
${pythonHarness.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}
def _perform(text, receive, send):
    import gc, os
    job = json.loads(text)
    os.chdir('/tmp')
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, 'r', closefd=False)), encoding='utf-8', errors='surrogateescape')
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, 'w', closefd=False)), encoding='utf-8', errors='surrogateescape')
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, 'w', closefd=False)), encoding='utf-8', errors='backslashreplace', line_buffering=True)
    run = _run
    code = run(job, receive, send)
    return code
for _name in [name for name in sys.modules if name.split('.')[0] in ('pyodide', '_pyodide', '_pyodide_core')]: del sys.modules[_name]
${'`'}, { globals: space });
const perform = space.get('_perform');
for (const name of ['fetch', 'WebSocket', 'XMLHttpRequest', 'EventSource', 'Request', 'Response', 'navigator']) delete globalThis[name];
for (const kind of [function () {}, async function () {}, function* () {}]) {
  Object.defineProperty(Object.getPrototypeOf(kind), 'constructor', { value: undefined, configurable: false, writable: false });
}
delete globalThis.process;
const { FS, _module: host } = pyodide;
/** Every file but those of the scratch folder. The time of change is one that no program can set. */
const listFiles = () => {
  const seen = [];
  const walk = (node, path) => {
    if (path === '/tmp') return seen.push(path + ' ' + node.id + ' ' + node.mode);
    seen.push(path + ' ' + node.id + ' ' + node.mode + ' ' + (node.ctime ?? node.timestamp ?? 0) + ' ' + (node.usedBytes ?? 0));
    if (path === '/proc' || path === '/dev' || !FS.isDir(node.mode)) return;
    for (const name of Object.keys(node.contents ?? {}).sort()) walk(node.contents[name], path + '/' + name);
  };
  walk(FS.root, '');
  return seen.join('\n');
};
const emptyScratch = (folder = '/tmp') => {
  for (const name of FS.readdir(folder)) {
    if (name === '.' || name === '..') continue;
    const path = folder + '/' + name;
    const isFolder = FS.isDir(FS.lstat(path).mode);
    if (isFolder) emptyScratch(path);
    if (isFolder) FS.rmdir(path); else FS.unlink(path);
  }
};
const quiet = { write: (bytes) => bytes.length };
for (let warm = 0; warm < 2; warm += 1) {
  pyodide.setStdout(quiet);
  pyodide.setStderr(quiet);
  perform('{"mode": "script", "language": "python", "code": "print(1)"}', () => undefined, () => {});
}
emptyScratch();
const files = listFiles();
const streams = FS.streams.length;
/** The whole of the interpreter: what Python is lies in this memory. Putting it back takes milliseconds. */
const memoryAtStart = host.HEAPU8.slice();
const rewind = () => {
  FS.streams.forEach((stream, number) => { if (stream && number >= streams) FS.close(stream); });
  FS.streams.length = streams;
  emptyScratch();
  if (listFiles() !== files) return false;
  host.HEAPU8.set(memoryAtStart);
  host.HEAPU8.fill(0, memoryAtStart.length);
  return true;
};
/** A program that names one of these may have reached the JavaScript outside that memory. Its process is not used again. */
const reachesInside = /_getframe|f_back|f_globals|f_builtins|__globals__|__builtins__|__subclasses__|\bgc\b|ctypes|pyodide/;
writeFrame({ ready: true });

for (let text = readLine(); text !== null; text = readLine()) {
  const { nonce, stdin = '', ...job } = JSON.parse(text);
  if (!('code' in job)) continue;
  const began = performance.now();
  memoryBytes = Math.min(memoryMb, job.limits.memoryMb) * (1 << 20);
  const outputs = [[], []], sizes = [0, 0];
  const report = (status, exitCode, dirty) => {
    const [stdout, stderr] = outputs.map((chunks) => Buffer.concat(chunks).toString('utf8'));
    writeFrame({ nonce, result: { status, stdout, stderr, exitCode, durationMs: performance.now() - began }, dirty });
  };
  const capture = (index) => ({ write(bytes) {
    const room = job.limits.outputBytes - sizes[index];
    outputs[index].push(Buffer.from(bytes.subarray(0, Math.max(0, room))));
    sizes[index] += bytes.length;
    if (bytes.length > room) { report('output-limit', null, true); leave(1); }
    return bytes.length;
  } });
  pyodide.setStdout(capture(0));
  pyodide.setStderr(capture(1));
  const input = Buffer.from(stdin);
  let at = 0;
  pyodide.setStdin({ read(into) { const count = Math.min(into.length, input.length - at); into.set(input.subarray(at, at + count)); at += count; return count; } });
  let code, dirty = false;
  try {
    code = perform(JSON.stringify(job), () => receiveReply() ?? undefined, (line) => writeFrame({ nonce, wire: line }));
  } catch (error) {
    outputs[1].push(Buffer.from(String(error)));
    code = 1;
    dirty = true;
  }
  const tail = Buffer.concat(outputs[1]).toString('utf8').trimEnd().split('\n').pop();
  dirty = dirty || reachesInside.test(job.code) || host.HEAPU8.length > memoryAtStart.length + (128 << 20);
  try { dirty = dirty || !rewind(); } catch { dirty = true; }
  report(code === 0 ? 'ok' : /^MemoryError/.test(tail) ? 'memory' : 'error', code, dirty);
  if (dirty) break;
}
leave(0);
`;
