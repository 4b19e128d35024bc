"""Be a fork of the process that has made the imports (tests.forked), for what starts its programs by itself.

`python -I -S relay.py SOCKET PREFIX PYTHON ARGUMENTS…` takes a hundredth of the start of a program that imports an SDK.
The fork has this process's streams, folder and variables, and gets its SIGINT and SIGTERM. When it ends, this process
ends as it did; when this process is killed first, so is the fork.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys


def _main(address: str, prefix: str, *command: str) -> int:
    ended, alive = os.pipe()
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(address)
        job = {
            "prefix": prefix,
            "command": command,
            "cwd": os.getcwd(),
            "env": dict(os.environ),
            "own_session": False,
            "relayed": True,
        }
        socket.send_fds(line, [json.dumps(job).encode() + b"\n"], [0, 1, 2, alive])
        pid = int(line.recv(20))
        os.close(alive)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: os.kill(pid, number))
        select.select([ended], [], [])
        line.send(json.dumps({"wait": pid}).encode() + b"\n")
        code = int(line.recv(20))
    if code < 0:
        if -code in (signal.SIGINT, signal.SIGTERM):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
