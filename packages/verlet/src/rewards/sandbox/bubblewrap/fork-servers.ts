/**
 * Python text of the zygote: the processes that programs are forked from. Neither ever sees a job, so no program inherits
 * anything of an earlier one: one is a copy of the zygote made before its first job, the other a warm Node (see node-fork.ts).
 * They take packets: F and five descriptors = fork, answered with the pid; W and a pid = wait for it, answered with the status.
 *
 * Programs of the box share a uid with these. They cannot look into them (not dumpable), but they can kill or stop them: each
 * wait has a deadline. A warm Node that does not answer is ended and started anew; where none can be started, each JavaScript
 * program gets a Node of its own. Without its Python server the box is replaced.
 */
export const forkServersSource = String.raw`
import base64, socket, struct

class ForkServer:
    pid = None
    def ask(self, packet, fds=(), seconds=5.0):
        """The answer to a packet, or None when there is none in time."""
        if self.pid is None or has_ended(self.pid, 'TtZX'): return None
        try:
            self.door.settimeout(seconds)
            if packet: socket.send_fds(self.door, [packet], list(fds))
            return self.door.recv(16) or None
        except OSError: return None
    def number(self, packet, fds=()):
        answer = self.ask(packet, fds)
        return struct.unpack('i', answer)[0] if answer and len(answer) == 4 else None
    def fork(self, fds): return self.number(b'F\0\0\0\0', fds)
    def wait(self, pid):
        """The status of a child that has ended, or None. A child whose server is gone has become the zygote's."""
        status = self.number(b'W' + struct.pack('i', pid))
        if status is not None: return status
        try: ended, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError: return None
        return status if ended else None
    def end(self):
        if self.pid is None: return
        try: os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError: pass
        try: os.waitpid(self.pid, 0)
        except ChildProcessError: pass
        self.door.close(); self.pid = None

class PythonServer(ForkServer):
    def __init__(self):
        self.door, door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try: self.serve(door)
            finally: os._exit(70)
        door.close()
        self.posture = posture(self.pid)
    def serve(self, door):
        self.door.close(); os.close(CONTROL_IN); os.close(CONTROL_OUT)
        kept = {}
        for number in range(1, 65):
            if number not in (signal.SIGCHLD, signal.SIGKILL, signal.SIGSTOP):
                try: kept[number] = signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError): pass
        while True:
            packet, fds, _, _ = socket.recv_fds(door, 16, 5)
            if not packet: os._exit(0)
            if packet[:1] == b'W': answer = os.waitpid(struct.unpack('i', packet[1:])[0], 0)[1]
            else:
                answer = os.fork()
                if answer == 0:
                    os.setsid()
                    for target, fd in enumerate(fds): os.dup2(fd, target)
                    os.closerange(5, 256)
                    door.detach()
                    for number, handler in kept.items(): signal.signal(number, signal.SIG_DFL if handler is None else handler)
                    child_main()
                    os._exit(70)
                for fd in fds: os.close(fd)
            door.send(struct.pack('i', answer))

class NodeServer(ForkServer):
    """At most one warm Node; its heap limit is that of the job it was started for."""
    def __init__(self, library):
        self.heap = None; self.failures = 0
        self.library = base64.b64decode(library) if NODE and library and hasattr(os, 'memfd_create') else None
    def start(self, heap):
        self.end()
        self.door, door = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        code = os.memfd_create('fork', 0)
        with open(code, 'wb', closefd=False) as file: file.write(self.library)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                null, door, code = os.open('/dev/null', os.O_RDWR), os.dup(door.fileno()), os.dup(code)
                for fd in range(10): os.dup2({5: door, 6: code}.get(fd, null), fd)
                for kind, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_STACK, 8 << 20)):
                    hard = resource.getrlimit(kind)[1]
                    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
                flags = NODE_FLAGS + ['--max-old-space-size=%d' % heap, '--single-threaded', '--v8-pool-size=0', '-e', NODE_HARNESS, 'fork']
                os.execve(NODE, [NODE] + flags, dict(NODE_ENVIRONMENT, LD_PRELOAD='/proc/self/fd/6'))
            finally: os._exit(70)
        os.close(code); door.close()
        self.heap = heap
        if self.ask(b'', seconds=10.0) == b'R': self.posture = posture(self.pid)
        else: self.end()
    def fork_with(self, heap, fds):
        """The pid of a forked Node with that heap limit, or None: then there is no warm Node to be had."""
        if self.library is None: return None
        for _ in range(2):
            if self.pid is None or self.heap != heap: self.start(heap)
            pid = self.fork(fds)
            if pid is not None and pid > 0: self.failures = 0; return pid
            self.end(); self.failures += 1
        if self.failures >= 4: self.library = None
        return None
`;
