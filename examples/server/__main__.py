"""`python -m examples.server`: the server on this machine, for this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import uvicorn

from .app import create_server
from .settings import Settings


def main() -> None:
    """Read the command line and serve until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m examples.server", description="Deep agents in the browser.")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--data", type=Path, default=Settings.data, help="directory of the sessions (%(default)s)")
    parser.add_argument("--store", default="", metavar="URL", help="where the sessions are; default: SQLite in --data")
    parser.add_argument("--backend", choices=["local", "docker"], default="local", help="where sessions work")
    parser.add_argument("--execute", action="store_true", help="offer commands on local: for one user only")
    given = parser.parse_args()
    settings = Settings(data=given.data, store=given.store, backend=given.backend, execute=given.execute)
    model = os.environ.get("DEEP_MODEL") or "a script (set DEEP_MODEL for a real model)"
    print(f"http://127.0.0.1:{given.port}  model: {model}", flush=True)
    uvicorn.run(
        create_server(settings),
        host="127.0.0.1",
        port=given.port,
        log_level="warning",
        ws_max_size=64 * 1024,  # pages send nothing there
        timeout_graceful_shutdown=3,  # seconds; open pages would keep it running
    )


if __name__ == "__main__":
    main()
