import { pythonHarness } from '../python-harness.js';
import { forkServersSource } from './fork-servers.js';

/**
 * The process with pid 1 of a bubblewrap box. It reads jobs from the host, runs each in a forked child and reports.
 *
 * Why the program cannot speak in its name:
 * - the child is forked from a process that never sees a job, so its memory never held a nonce, nor anything of another program;
 * - the child has no descriptor of the host's pipes, and the zygote is not dumpable, so /proc/1/fd and /proc/1/mem are closed;
 * - signals from inside a pid namespace do not reach its pid 1, SIGKILL included.
 */
export const zygoteSource = String.raw`
import ctypes, errno, gc, os, resource, select, shutil, signal, stat, sys, threading, time
import atexit, bisect, collections, copy, datetime, decimal, fractions, functools, heapq, itertools, math, operator
import random, re, statistics, string, typing
${pythonHarness}
sys.path[:] = [path for path in sys.path if path]
NODE, NODE_HARNESS, NODE_LIBRARY = (sys.argv[1:] + ['', '', ''])[:3]
# Random numbers, like the order of a set, must not make a reward random: they are the same in every box.
NODE_FLAGS = ['--stack-size=3900', '--random-seed=1']
NODE_ENVIRONMENT = {'PATH': '/usr/bin:/bin', 'HOME': '/tmp', 'LANG': 'C.UTF-8'}
with open('/proc/self/oom_score_adj', 'w') as file: file.write('1000')
PRCTL = ctypes.CDLL(None, use_errno=True).prctl
PRCTL(4, 0, 0, 0, 0)

# Descriptors 0-9 stay taken so that no pipe of ours collides with the numbers the child uses.
while True:
    filler = os.open('/dev/null', os.O_RDWR)
    if filler > 9: os.close(filler); break
def _high(fd):
    copy_fd = os.dup(fd)
    os.dup2(filler_null, fd)
    return copy_fd
filler_null = os.open('/dev/null', os.O_RDWR)
CONTROL_IN, CONTROL_OUT = _high(0), _high(1)
BASE_PAGES = 0
PAGE = resource.getpagesize()

def say(message):
    data = memoryview((json.dumps(message) + '\n').encode())
    while data: data = data[os.write(CONTROL_OUT, data):]

class Lines:
    """Whole lines out of a descriptor."""
    def __init__(self, fd): self.fd, self.buffer, self.read = fd, b'', os.read
    def feed(self):
        chunk = self.read(self.fd, 1 << 16)
        if not chunk: return None
        *lines, self.buffer = (self.buffer + chunk).split(b'\n') if b'\n' in chunk else (self.buffer + chunk,)
        return lines
    def one(self):
        parts = [self.buffer]
        while b'\n' not in parts[-1]:
            chunk = self.read(self.fd, 1 << 16)
            if not chunk: return None
            parts.append(chunk)
        line, self.buffer = b''.join(parts).split(b'\n', 1)
        return line.decode('utf-8', 'surrogatepass')

# Before Linux 5.14 the processes of all boxes of a user are counted together.
OTHER_BOXES = 0 if tuple(map(int, re.findall(r'\d+', os.uname().release)[:2])) >= (5, 14) else 512

def set_limits(limits, python, pid=0):
    megabyte = 1 << 20
    def cap(kind, value):
        hard = resource.prlimit(pid, kind)[1]
        if hard != resource.RLIM_INFINITY: value = min(value, hard)
        resource.prlimit(pid, kind, (value, value))
    seconds = int(limits['timeoutMs'] / 1000) + 2
    cap(resource.RLIMIT_CPU, seconds)
    cap(resource.RLIMIT_CORE, 0)
    cap(resource.RLIMIT_FSIZE, int(limits['fileMb'] * megabyte))
    cap(resource.RLIMIT_NOFILE, 128)
    # Message queues would outlive the program.
    cap(resource.RLIMIT_MSGQUEUE, 0)
    # The stack is not part of RLIMIT_DATA. Recursion-heavy contest programs need more than 8 MB of it.
    cap(resource.RLIMIT_STACK, min(256, int(limits['memoryMb'])) * megabyte if python else 8 * megabyte)
    # Node maps more than it uses (code range, semi-spaces); its heap has its own, exact limit.
    cap(resource.RLIMIT_DATA, int(limits['memoryMb'] + (64 if python else 256)) * megabyte)
    # The servers, and the threads of a Node, count too.
    cap(resource.RLIMIT_NPROC, int(limits['processes']) + 8 + (0 if python else 12) + OTHER_BOXES)

def child_main():
    """What a forked child does: descriptors 0 to 2 are the program's, 3 and 4 the wire, on which the job comes."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    wire = Lines(3)
    line = wire.one()
    if line is None: os._exit(0)
    job = json.loads(line)
    python = job['language'] == 'python'
    os.chdir('/tmp')
    if not python:
        # Too long for an argument; the descriptor also carries what was read ahead of the wire.
        ahead = os.memfd_create('job')
        with open(ahead, 'wb', closefd=False) as file: file.write(line.encode('utf-8', 'surrogatepass') + b'\n' + wire.buffer)
        os.lseek(ahead, 0, os.SEEK_SET)
        os.dup2(ahead, 5)
        if ahead != 5: os.close(ahead)
        else: os.set_inheritable(5, True)
    set_limits(job['limits'], python)
    if not python:
        heap = max(16, int(job['limits']['memoryMb']))
        os.execve(NODE, [NODE] + NODE_FLAGS + ['--max-old-space-size=%d' % heap, '-e', NODE_HARNESS], NODE_ENVIRONMENT)
    if job['mode'] == 'script': os.close(3); os.close(4)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, 'r')), encoding='utf-8', errors='surrogateescape')
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, 'w')), encoding='utf-8', errors='surrogateescape')
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, 'w')), encoding='utf-8', errors='backslashreplace', line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    write = os.write
    def send(text):
        data = memoryview((text + '\n').encode('utf-8', 'surrogatepass'))
        while data: data = data[write(4, data):]
    leave = os._exit
    # A fork would seed it anew.
    random.seed(0)
    code = _run(job, wire.one, send)
    if job['mode'] == 'script':
        try:
            threading._shutdown(); atexit._run_exitfuncs(); sys.stdout.flush()
        except BaseException: code = code or 1
    leave(code)

def has_ended(pid, states='ZX'):
    """Whether the process is gone, or in one of these states (T: stopped, Z: ended)."""
    try:
        with open('/proc/%d/stat' % pid) as file: return file.read().rsplit(') ', 1)[1][0] in states
    except OSError: return True

def posture(pid):
    """What any process of the same user can change about another without touching it."""
    limits = tuple(resource.prlimit(pid, kind) for kind in KINDS)
    return limits, os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid), frozenset(os.sched_getaffinity(pid))
KINDS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith('RLIMIT_')})

${forkServersSource}
def heap_of(limits): return max(16, int(limits['memoryMb']))

class Spare:
    """A forked child that waits for its job."""
    def __init__(self, language, heap):
        self.language, self.heap = language, heap
        stdin_r, self.stdin = os.pipe(); self.out, out_w = os.pipe(); self.err, err_w = os.pipe()
        wire_r, self.wire_in = os.pipe(); self.wire_out, wire_w = os.pipe()
        theirs = (stdin_r, out_w, err_w, wire_r, wire_w)
        pid = nodes.fork_with(heap, theirs) if language == 'javascript' else None
        self.is_node = pid is not None
        self.server = nodes if self.is_node else pythons
        self.pid = pid if self.is_node else pythons.fork(theirs)
        for fd in theirs: os.close(fd)
        if self.pid is None or self.pid <= 0: raise RuntimeError('the box cannot fork any more')
        for fd in self.fds(): os.set_blocking(fd, False)
    def fds(self): return (self.stdin, self.wire_in, self.out, self.err, self.wire_out)
    def fits(self, job): return self.language == job['language'] and (not self.is_node or self.heap == heap_of(job['limits']))
    def discard(self):
        os.kill(self.pid, signal.SIGKILL)
        self.server.wait(self.pid)
        for fd in self.fds(): os.close(fd)

def others():
    """Processes of the program: all of the box but this one and the servers."""
    known = {'1', str(pythons.pid), str(nodes.pid)}
    return [name for name in os.listdir('/proc') if name.isdigit() and name not in known]

def resident_bytes():
    total = 0
    for name in others():
        try:
            with open('/proc/' + name + '/statm') as file: pages = int(file.read().split()[1])
            total += max(0, pages - BASE_PAGES)
        except (OSError, IndexError): pass
    return total * PAGE

def last_pid():
    with open('/proc/loadavg') as file: return file.read().split()[-1]

def reap():
    """Takes leave of orphans that have ended. False when a server has."""
    whole = True
    while True:
        try: pid, _ = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError: return whole
        if pid == 0: return whole
        if pid in (pythons.pid, nodes.pid): whole = False

def has_shared_memory():
    for kind in ('shm', 'sem', 'msg'):
        try:
            with open('/proc/sysvipc/' + kind) as file:
                if len(file.readlines()) > 1: return True
        except FileNotFoundError: pass
    return False

def has_ended_all():
    """Ends what the program left running. A pid handed out while we looked may belong to a process that the list missed."""
    for _ in range(20):
        before = last_pid()
        if not reap(): return False
        left = others()
        if not left and last_pid() == before: return True
        for name in left:
            try: os.kill(int(name), signal.SIGKILL)
            except ProcessLookupError: pass
        time.sleep(0.002)
    return False

def is_clean():
    """Whether nothing of the program is left: no process, no file, no shared memory, no limit that it changed."""
    if not has_ended_all(): return False
    if posture(0) != OWN_POSTURE or posture(pythons.pid) != pythons.posture: return False
    if nodes.pid is not None and posture(nodes.pid) != nodes.posture: return False
    if has_shared_memory(): return False
    try:
        entries = list(os.scandir('/tmp'))
        for entry in entries[:64]:
            if entry.is_dir(follow_symlinks=False): return False
            os.unlink(entry.path)
    except OSError: return False
    return len(entries) <= 64

def run_job(job, spare, control):
    began = time.monotonic()
    limits = job['limits']
    deadline = began + limits['timeoutMs'] / 1000
    nonce = job.pop('nonce')
    stdin = job.pop('stdin', '')
    pending = {spare.wire_in: bytearray((json.dumps(job) + '\n').encode()), spare.stdin: bytearray(stdin.encode('utf-8', 'surrogatepass'))}
    ending = {spare.stdin: True, spare.wire_in: job['mode'] == 'script'}
    captured = {spare.out: bytearray(), spare.err: bytearray()}
    wire = Lines(spare.wire_out); wire_bytes = 0
    poller = select.poll()
    for fd in (spare.out, spare.err, spare.wire_out, control.fd): poller.register(fd, select.POLLIN)
    open_fds = {spare.out, spare.err, spare.wire_out, spare.stdin, spare.wire_in}
    def close(fd):
        if fd not in open_fds: return
        open_fds.discard(fd)
        try: poller.unregister(fd)
        except KeyError: pass
        os.close(fd)
    writing = set()
    def pump(fd):
        if fd not in open_fds: return
        data = pending[fd]
        try:
            while data: del data[:os.write(fd, data[:1 << 16])]
            if ending[fd]: close(fd)
            elif fd in writing: writing.discard(fd); poller.unregister(fd)
        except BlockingIOError:
            if fd not in writing: writing.add(fd); poller.register(fd, select.POLLOUT)
        except OSError: close(fd)
    try: pidfd = os.pidfd_open(spare.pid)
    except (AttributeError, OSError): pidfd = None
    if pidfd is not None: poller.register(pidfd, select.POLLIN)
    if spare.is_node: set_limits(limits, False, spare.pid)
    pump(spare.wire_in); pump(spare.stdin)
    why = None; has_exited = False; next_memory = began + 0.02
    def take(fd):
        """Reads once. True when there may be more."""
        nonlocal why, wire_bytes
        try:
            if fd == spare.wire_out:
                lines = wire.feed()
                if lines is None: return close(fd)
                wire_bytes += sum(map(len, lines))
                if wire_bytes > (64 << 20) or len(wire.buffer) > (8 << 20): why = 'output-limit'
                elif job['mode'] != 'script':
                    for text in lines: say({'nonce': nonce, 'wire': text.decode('utf-8', 'replace')})
                return True
            chunk = os.read(fd, 1 << 16)
        except BlockingIOError: return False
        if not chunk: return close(fd)
        captured[fd] += chunk
        if len(captured[fd]) > limits['outputBytes']:
            del captured[fd][limits['outputBytes']:]
            why = 'output-limit'
        return True
    def obey(lines):
        for text in lines:
            message = json.loads(text)
            if 'reply' in message: pending[spare.wire_in] += (message['reply'] + '\n').encode('utf-8', 'surrogatepass')
            if message.get('end'): ending[spare.wire_in] = True
        pump(spare.wire_in)
    # Lines that came with the job are in the buffer already: poll would never announce them, and both boxes would wait.
    *early, control.buffer = control.buffer.split(b'\n')
    obey(early)
    while why is None:
        # First: on a busy machine the program may have ended in time and we may look late.
        if has_exited or (pidfd is None and has_ended(spare.pid)): has_exited = True; break
        now = time.monotonic()
        if now >= deadline: why = 'timeout'; break
        if now >= next_memory:
            next_memory = now + 0.05
            if resident_bytes() > limits['memoryMb'] * (1 << 20): why = 'memory'; break
        wait = min(deadline - now, 0.05 if pidfd is not None else 0.005)
        for fd, event in poller.poll(max(1, int(wait * 1000))):
            if fd == control.fd:
                lines = control.feed()
                if lines is None: os._exit(0)
                obey(lines)
            elif fd in (spare.stdin, spare.wire_in): pump(fd)
            elif fd == pidfd: has_exited = True
            elif fd in open_fds: take(fd)
    took = time.monotonic() - began
    state = spare.server.wait(spare.pid) if has_exited else None
    if has_exited:
        for fd in (spare.out, spare.err, spare.wire_out):
            while why is None and fd in open_fds and take(fd): pass
    if why is not None or state is None:
        try: os.kill(-1, signal.SIGKILL)
        except ProcessLookupError: pass
        clean = False
    else: clean = is_clean()
    if pidfd is not None: os.close(pidfd)
    for fd in list(open_fds): close(fd)
    code = None if state is None or why is not None else os.waitstatus_to_exitcode(state)
    stdout, stderr = (captured[fd].decode('utf-8', 'replace') for fd in (spare.out, spare.err))
    tail = stderr[-2000:]
    status = why or ('ok' if code == 0 else 'timeout' if code == -signal.SIGXCPU else
        'memory' if 'MemoryError' in tail.rsplit('\n', 2)[-2:][0] or 'heap out of memory' in stderr or 'Array buffer allocation failed' in tail else
        'killed' if code is None or code == -signal.SIGKILL else 'error')
    return {'nonce': nonce, 'result': {'status': status, 'stdout': stdout, 'stderr': stderr, 'exitCode': code, 'durationMs': took * 1000}, 'dirty': why is not None or not clean}

def serve_one(spare):
    """One line from the host. Nothing of a job may stay referenced here when the next child is forked."""
    text = control.one()
    if text is None: os._exit(0)
    job = json.loads(text)
    if 'code' not in job: return spare
    heap = heap_of(job['limits'])
    if not spare.fits(job):
        spare.discard()
        spare = Spare(job['language'], heap)
    answer = run_job(job, spare, control)
    say(answer)
    # The host replaces a box that is not clean.
    if answer['dirty']: os._exit(0)
    return Spare(spare.language, heap)

if not hasattr(socket, 'send_fds'): sys.exit('the sandbox needs Python 3.9 or newer; this is ' + sys.version.split()[0])
control = Lines(CONTROL_IN)
OWN_POSTURE = posture(0)
with open('/proc/self/statm') as file: BASE_PAGES = int(file.read().split()[1])
gc.collect()
gc.freeze()
pythons = PythonServer()
nodes = NodeServer(NODE_LIBRARY)
spare = Spare('python', 0)
say({'ready': True, 'version': sys.version.split()[0]})
while True: spare = serve_one(spare)
`;
