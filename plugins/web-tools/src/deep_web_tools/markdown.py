"""Convert HTML in a process of its own: a page made to be slow or large costs its time limit, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio

from .errors import WebError

__all__ = ["convert"]

PROGRAM = Path(__file__).with_name("convert.py")


async def convert(html: str, url: str, *, most: int, program: Path = PROGRAM) -> tuple[str, str, bool]:
    """Convert a page to Markdown. Cancelling ends the process.

    Args:
        html: the page.
        url: its address, for relative links.
        most: maximum characters of the result.
        program: what is run.

    Returns:
        Title, Markdown, and whether the Markdown was cut.

    Raises:
        WebError: the page cannot be converted.
    """
    if getattr(sys, "frozen", False) or not sys.executable:
        raise WebError("HTML cannot be converted in an application without a Python interpreter.")
    # Isolated: neither the working directory nor a variable can put other code into the process.
    command = [sys.executable, "-I", "-X", "utf8", str(program), url, str(most)]
    keep = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        done = await anyio.run_process(
            command, input=html.encode("utf-8", "replace"), stderr=subprocess.DEVNULL, check=False, env=keep
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, NotImplementedError) as error:
        raise WebError(f"the page is HTML, and the program that converts it cannot start: {error}") from error
    if answer is None:
        raise WebError("the page is HTML that cannot be converted; it is too large or too complex.")
    return answer["title"], answer["text"], answer["more"]
