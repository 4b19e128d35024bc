"""The limits of the backends, and where their numbers come from."""

from __future__ import annotations

__all__ = ["MAX_OUTPUT_BYTES", "MAX_READ_BYTES"]

MAX_READ_BYTES = 32 * 1024 * 1024
"""The largest file in bytes that one `read_bytes` returns, by default.

Above the 8 MiB that Pydantic AI's conformance suite asks of every backend and the size of usual uploads; below
what a few sessions at once would notice in memory.
"""

MAX_OUTPUT_BYTES = 10 * 1024 * 1024
"""The most bytes of output of one command: what Pydantic AI's own local backend, which runs them, collects."""
