"""Be a fork of the process that has made the imports (tests.forked), for what starts its programs by itself.

`python -I -S relay.py SOCKET PREFIX PYTHON ARGUMENTS…` takes a hundredth of the start of a program that imports an SDK.
The fork has this process's streams, folder and variables. When it ends, this process ends with its exit code; when
this process ends first, killed too, so does the fork.
"""

from __future__ import annotations

import json
import os
import select
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
        select.select([ended], [], [])
        line.send(json.dumps({"wait": pid}).encode() + b"\n")
        code = int(line.recv(20))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
