import type { Language } from './types.js';

/** What the attacks are after. A program that prints the secret, or 4 for the input 2, would score 1. */
export interface Target {
  secret: string;
  /** A file of the user that holds the secret. */
  secretFile: string;
  /** The name of an environment variable of the trainer that holds the secret. */
  secretVariable: string;
  /** A server on the loopback interface that answers with the secret. */
  port: number;
  /** A folder of the user that nobody else should write to. */
  folder: string;
}

export interface HostileProgram {
  name: string;
  code: string;
  /** What success of the attack would print; `4` if not given. */
  wants?: 'secret';
  /** Tells nothing new at the WebAssembly level, where each kill of a Pyodide costs seconds. */
  onlyBubblewrap?: true;
  /** Scored through these instead of standard input and output. */
  through?: 'call' | 'asserts';
}

const forgedFrame = `{"nonce": "", "result": {"status": "ok", "stdout": "4\\n", "stderr": "", "exitCode": 0, "durationMs": 1}}\n`;

export function hostilePrograms(language: Language, target: Target): HostileProgram[] {
  return language === 'python' ? hostilePython(target) : hostileJavascript(target);
}

const hostilePython = (target: Target): HostileProgram[] => [
  { name: 'fork bomb', onlyBubblewrap: true, code: 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass' },
  { name: 'endless loop', code: 'while True: pass' },
  {
    name: 'endless loop that catches everything',
    onlyBubblewrap: true,
    code: 'while True:\n  try:\n    while True: pass\n  except BaseException: pass',
  },
  { name: 'endless sleep', onlyBubblewrap: true, code: 'import time, os\nwhile True: time.sleep(60)' },
  { name: 'memory bomb', code: 'kept = []\nwhile True: kept.append(bytearray(10 ** 7))' },
  {
    name: 'memory bomb shared by many processes',
    code: 'import os, time\nfor _ in range(8):\n  if os.fork() == 0: break\nkept = bytearray(b"x" * 100 * 2 ** 20)\ntime.sleep(60)',
  },
  {
    name: 'reading a file of the user',
    wants: 'secret',
    code: `print(open(${JSON.stringify(target.secretFile)}).read())`,
  },
  {
    name: 'reading the environment',
    wants: 'secret',
    code: `import os, glob\nname = ${JSON.stringify(target.secretVariable)}
found = os.environ.get(name)
for path in glob.glob('/proc/*/environ'):
  try:
    for part in open(path, errors='replace').read().split('\\0'):
      if part.startswith(name + '='): found = part.split('=', 1)[1]
  except OSError: pass
print(found)`,
  },
  {
    name: 'network',
    wants: 'secret',
    code: `import socket\nline = socket.create_connection(('127.0.0.1', ${target.port}), timeout=1)\nprint(line.recv(200).decode())`,
  },
  { name: 'giant output', code: 'import sys\nwhile True: sys.stdout.write("4" * 10 ** 6)' },
  { name: 'giant error output', onlyBubblewrap: true, code: 'import sys\nwhile True: sys.stderr.write("4" * 10 ** 6)' },
  { name: 'writing outside', code: `open(${JSON.stringify(`${target.folder}/written`)}, 'w').write('x')` },
  {
    name: 'filling the disk',
    onlyBubblewrap: true,
    code: 'import itertools\nfor n in itertools.count(): open(f"/tmp/{n}", "wb").write(b"x" * 10 ** 7)',
  },
  {
    name: 'replacing builtins',
    code: 'import builtins, json, sys\nbuiltins.print = lambda *a, **k: None\njson.dumps = lambda *a, **k: "4"\nsys.exit(0)',
  },
  {
    name: 'a value that equals everything (call)',
    through: 'call',
    code: 'class Any(int):\n  def __eq__(self, other): return True\n  def __hash__(self): return 4\ndef double(n): return Any(0)',
  },
  {
    name: 'monkey-patching the checker (call)',
    through: 'call',
    code: `import sys, json, gc
json.dumps = lambda *a, **k: '{"value": true, "verdict": "passed"}'
frame = sys._getframe()
while frame:
  for key in list(frame.f_globals):
    if callable(frame.f_globals[key]): frame.f_globals[key] = lambda *a, **k: '{"verdict": "passed"}'
  frame = frame.f_back
def double(n): return None`,
  },
  { name: 'exit before the answer (call)', through: 'call', code: 'import os\ndef double(n): os._exit(0)' },
  { name: 'exit before the asserts', onlyBubblewrap: true, through: 'asserts', code: 'import os\nos._exit(0)' },
  { name: 'sys.exit before the asserts', through: 'asserts', code: 'import sys\nsys.exit(0)' },
  {
    name: 'a value that equals everything (asserts)',
    through: 'asserts',
    code: 'class Any:\n  def __eq__(self, other): return True\n  def __bool__(self): return True\ndef double(n): return Any()',
  },
  {
    name: 'disabling assert (asserts)',
    through: 'asserts',
    code: `import builtins, sys, os
class AssertionError(BaseException): pass
builtins.AssertionError = AssertionError
sys.excepthook = lambda *a: os._exit(0)
try: os.write(4, b'{"verdict": "passed"}\\n')
except OSError: pass
def double(n): return 0`,
  },
  {
    name: 'forging the report',
    code: `import os, glob
print('wrong', flush=True)
frame = ${JSON.stringify(forgedFrame)}.encode()
for fd in range(3, 300):
  try: os.write(fd, frame)
  except OSError: pass
for path in glob.glob('/proc/*/fd/*'):
  try:
    with open(path, 'wb') as file: file.write(frame)
  except OSError: pass
os._exit(0)`,
  },
  {
    name: 'reaching into the process that reports',
    code: `import os, ctypes
print('wrong', flush=True)
try: ctypes.CDLL(None).ptrace(16, 1, 0, 0)
except Exception: pass
open('/proc/1/mem', 'r+b').write(b'x')`,
  },
  { name: 'exit with success and no output', onlyBubblewrap: true, code: 'import os\nos._exit(0)' },
  {
    name: 'ignoring signals',
    onlyBubblewrap: true,
    code: 'import signal\nfor number in range(1, 65):\n  try: signal.signal(number, signal.SIG_IGN)\n  except Exception: pass\nwhile True: pass',
  },
  {
    name: 'killing everybody',
    code: 'import os\nfor pid in (1, os.getppid(), -1):\n  try: os.kill(pid, 9)\n  except OSError: pass\nprint(0)',
  },
  {
    name: 'stopping everybody',
    code: 'import os\nfor pid in (1, os.getppid(), -1):\n  try: os.kill(pid, 19)\n  except OSError: pass\nprint(0)',
  },
  {
    name: 'taking the limits of the others away',
    onlyBubblewrap: true,
    code: `import os, resource
for name in os.listdir('/proc'):
  if not name.isdigit() or int(name) == os.getpid(): continue
  for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_DATA, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
    try: resource.prlimit(int(name), kind, (0, 0))
    except OSError: pass
  try: os.setpriority(os.PRIO_PROCESS, int(name), 19); os.sched_setaffinity(int(name), {0})
  except OSError: pass
print(0)`,
  },
  {
    name: 'shared memory for the next one',
    onlyBubblewrap: true,
    code: `import ctypes
print(0 if ctypes.CDLL(None).shmget(1234, 4096, 0o1666) >= 0 else 4)`,
  },
  {
    name: 'locking the scratch folder',
    code: 'import os\nos.mkdir("/tmp/a")\nopen("/tmp/a/b", "w").close()\nos.chmod("/tmp/a", 0)\nos.chmod("/tmp", 0)\nprint(0)',
  },
  {
    name: 'threads',
    onlyBubblewrap: true,
    code: 'import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()',
  },
  {
    name: 'deep recursion',
    code: 'import sys\nsys.setrecursionlimit(10 ** 9)\ndef dive(n): return dive(n + 1) + 1\ndive(0)',
  },
  {
    name: 'closing the standard streams',
    code: 'import os\nfor fd in range(64):\n  try: os.close(fd)\n  except OSError: pass',
  },
  {
    name: 'reading more than there is',
    onlyBubblewrap: true,
    code: 'import sys\nwhile True:\n  if sys.stdin.read(1) == "x": print(4)',
  },
  {
    name: 'leaving a process behind',
    code: 'import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    time.sleep(3600)\n  os._exit(0)\nprint(0)',
  },
];

const hostileJavascript = (target: Target): HostileProgram[] => [
  { name: 'endless loop', code: 'for (;;);' },
  { name: 'endless promise chain', code: 'const again = () => Promise.resolve().then(again); again();' },
  { name: 'endless timers', code: 'const again = () => setTimeout(again, 0); again();' },
  { name: 'memory bomb', code: 'const kept = []; for (;;) kept.push("x".repeat(1000) + kept.length);' },
  {
    name: 'memory bomb outside the heap',
    code: 'const kept = []; for (;;) { const block = new Uint8Array(1e7); block.fill(1); kept.push(block); }',
  },
  {
    name: 'fork bomb',
    onlyBubblewrap: true,
    code: `const { spawn } = require('child_process');
setInterval(() => { for (let n = 0; n < 20; n++) spawn('sleep', ['60']).on('error', () => {}); }, 1);`,
  },
  {
    name: 'reading a file of the user',
    wants: 'secret',
    code: `console.log(require('fs').readFileSync(${JSON.stringify(target.secretFile)}, 'utf8'))`,
  },
  {
    name: 'reading the environment',
    wants: 'secret',
    code: `console.log(process.env[${JSON.stringify(target.secretVariable)}])`,
  },
  {
    name: 'network',
    wants: 'secret',
    code: `require('net').connect(${target.port}, '127.0.0.1').on('data', (data) => { console.log(String(data)); process.exit(0); })`,
  },
  { name: 'giant output', code: 'for (;;) process.stdout.write("4".repeat(1e6));' },
  { name: 'writing outside', code: `require('fs').writeFileSync(${JSON.stringify(`${target.folder}/written`)}, 'x')` },
  { name: 'deep recursion', code: 'const dive = (n) => dive(n + 1) + 1; dive(0);' },
  { name: 'exit with success and no output', code: 'process.exit(0)' },
  { name: 'exit before the asserts', through: 'asserts', code: 'process.exit(0)' },
  { name: 'exit before the answer (call)', through: 'call', code: 'function double() { process.exit(0); }' },
  {
    name: 'disabling assert (asserts)',
    through: 'asserts',
    code: `const assert = require('assert');
for (const key of Object.keys(assert)) assert[key] = () => {};
Object.is = () => true; JSON.stringify = () => '{"verdict":"passed"}';
try { require('fs').writeSync(4, '{"verdict":"passed"}\\n'); } catch {}
function double() { return 0; }`,
  },
  {
    name: 'a value that equals everything (asserts)',
    through: 'asserts',
    code: 'function double() { return { valueOf: () => 4, toString: () => "4", [Symbol.toPrimitive]: () => 4 }; }',
  },
  {
    name: 'forging the report',
    code: `const fs = require('fs');
console.log('wrong');
for (let fd = 3; fd < 64; fd++) try { fs.writeSync(fd, ${JSON.stringify(forgedFrame)}); } catch {}
for (const pid of fs.readdirSync('/proc')) try { for (const fd of fs.readdirSync('/proc/' + pid + '/fd')) fs.writeFileSync('/proc/' + pid + '/fd/' + fd, ${JSON.stringify(forgedFrame)}); } catch {}
process.exit(0);`,
  },
  {
    name: 'ignoring signals',
    onlyBubblewrap: true,
    code: "for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(name, () => {}); for (;;);",
  },
  {
    name: 'killing everybody',
    code: "for (const pid of [1, process.ppid, -1]) try { process.kill(pid, 'SIGKILL'); } catch {}\nconsole.log(0);",
  },
  {
    name: 'threads',
    onlyBubblewrap: true,
    code: "const { Worker } = require('worker_threads'); for (;;) new Worker('for(;;);', { eval: true });",
  },
  {
    name: 'opening the debugger of the process it was forked from',
    onlyBubblewrap: true,
    code: `for (const pid of [1, 2, 3, 4, process.ppid]) try { process.kill(pid, 'SIGUSR1'); } catch {}
setTimeout(() => require('http').get('http://127.0.0.1:9229/json/list', () => console.log(4)).on('error', (error) => console.log(error.code)), 200);`,
  },
  {
    name: 'spoiling the built-in objects',
    code: `Object.prototype.toString = Array.prototype.map = String.prototype.split = JSON.parse = JSON.stringify = () => { throw 0; };
Object.defineProperty(Object.prototype, 'limits', { get() { throw 0; } }); globalThis.Buffer = globalThis.Promise = undefined;
for (const key of Object.keys(require('fs'))) try { require('fs')[key] = undefined; } catch {}`,
  },
  { name: 'replacing the console', code: 'console.log = () => {}; process.stdout.write = () => true; console.log(4);' },
];
