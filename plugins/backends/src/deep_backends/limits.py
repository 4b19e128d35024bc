"""The limits of the backends and their sources."""

from __future__ import annotations

__all__ = ["MAX_OUTPUT_BYTES", "MAX_READ_BYTES"]

MAX_READ_BYTES = 32 * 1024 * 1024
"""The default maximum size in bytes of a file for one `read_bytes`.

Above the 8 MiB that Pydantic AI's conformance suite asks of every backend and the size of usual uploads; below
what a few concurrent sessions would notice in memory.
"""

MAX_OUTPUT_BYTES = 10 * 1024 * 1024
"""Maximum bytes of output of one command: the same as in Pydantic AI's local backend, which runs them."""
