import { pythonHarness } from '../python-harness.js';
import { channelSource } from './channel.js';

/**
 * Pyodide in a Node process of its own. Pyodide alone is no boundary (its `js` module is Node's global object), so: an empty
 * global object for Python, no `pyodide_js`, no code from strings, no network globals, and around it all the permission model.
 * There is no fork here: after each program every module that existed before is put back as it was, and the pool replaces the
 * process regularly and after any kill.
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
def _make_restore():
    import gc, shutil, os
    for name in [name for name in sys.modules if name.split('.')[0] in ('pyodide', '_pyodide', '_pyodide_core')]: del sys.modules[name]
    kept = {name: (module, dict(module.__dict__)) for name, module in sys.modules.items() if hasattr(module, '__dict__')}
    finders, hooks, limit, path = list(sys.meta_path), list(sys.path_hooks), sys.getrecursionlimit(), list(sys.path)
    space = globals()
    harness = dict(space)
    def restore(sys=sys, list=list, len=len, any=any, gc=gc, os=os, shutil=shutil):
        space.clear(); space.update(harness)
        sys.settrace(None); sys.setprofile(None); sys.setrecursionlimit(limit)
        for name in list(sys.modules):
            if name not in kept: del sys.modules[name]
        for name, (module, before) in kept.items():
            sys.modules[name] = module
            now = module.__dict__
            if len(now) != len(before) or any(now.get(key, now) is not value for key, value in before.items()):
                now.clear(); now.update(before)
        sys.meta_path[:] = finders; sys.path_hooks[:] = hooks; sys.path[:] = path
        for entry in os.scandir('/tmp'):
            if entry.is_dir(follow_symlinks=False): shutil.rmtree(entry.path)
            else: os.unlink(entry.path)
        gc.collect()
    return restore
_restore = _make_restore()
${'`'}, { globals: space });
const perform = space.get('_perform');
const restore = space.get('_restore');
for (const name of ['fetch', 'WebSocket', 'XMLHttpRequest', 'EventSource', 'Request', 'Response', 'navigator']) delete globalThis[name];
for (const kind of [function () {}, async function () {}, function* () {}]) {
  Object.defineProperty(Object.getPrototypeOf(kind), 'constructor', { value: undefined, configurable: false, writable: false });
}
const heapAtStart = pyodide._module.HEAPU8.length;
delete globalThis.process;
/** A program that names one of these may have changed what no list of modules shows. Its process is not used again. */
const reachesInside = /_getframe|f_back|f_globals|f_builtins|__globals__|__builtins__|__subclasses__|\bgc\b|\bctypes\b|\bbuiltins\b|settrace|setprofile/;
/** Whether the interpreter still does what it should after a program and its cleaning-up. */
const isSound = () => {
  let said = '';
  const listen = { write: (bytes) => { said += Buffer.from(bytes).toString(); return bytes.length; } };
  pyodide.setStdout(listen);
  pyodide.setStderr(listen);
  const question = { mode: 'script', language: 'python', code: 'import json\nprint(json.dumps([sum([2, 3]), sorted("ba")]))' };
  try { return perform(JSON.stringify(question), () => undefined, () => {}) === 0 && said === '[5, ["a", "b"]]\n'; } catch { return false; }
};
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
  try { restore(); } catch { dirty = true; }
  dirty = dirty || reachesInside.test(job.code) || !isSound();
  const heapGrew = pyodide._module.HEAPU8.length > heapAtStart + (128 << 20);
  report(code === 0 ? 'ok' : /^MemoryError/.test(tail) ? 'memory' : 'error', code, dirty || heapGrew);
  if (dirty) break;
}
leave(0);
`;
