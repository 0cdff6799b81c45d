"""Runs a command in a pseudo terminal: waits for a pattern, sends keys, and so on. Prints what the terminal showed.

usage: terminal.py '[["pattern", "keys"], ...]' command ...
"""
import json
import os
import pty
import re
import select
import sys
import time

steps = json.loads(sys.argv[1])
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])

shown = ""
deadline = time.monotonic() + 60


def read_until(pattern, since):
    """Reads on until the pattern shows behind `since`, or the program ends."""
    global shown
    while not (pattern and re.search(pattern, shown[since:])):
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            sys.exit(f"no {pattern!r} within a minute; shown:\n{shown}")
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            data = b""
        if not data:
            return False
        shown += data.decode("utf8", "replace")
    return True


for pattern, keys in steps:
    start = len(shown) if pattern.startswith("+") else 0
    if not read_until(pattern.lstrip("+"), start):
        break
    os.write(terminal, keys.encode())
read_until(None, 0)
_, status = os.waitpid(pid, 0)
print(json.dumps({"shown": shown, "exitCode": os.waitstatus_to_exitcode(status)}))
