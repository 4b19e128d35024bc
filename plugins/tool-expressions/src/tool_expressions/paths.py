"""Name a call among those of subagents: by the ids of the calls above it and its own."""

from __future__ import annotations

__all__ = ["call_ids", "call_path"]


def call_path(*ids: str) -> str:
    """Return the path of a call: the ids of the calls above it and its own, with slashes between them.

    Providers choose the ids: a slash in one is `%2F`, and a percent sign `%25`, so that no two calls have one path.
    """
    return "/".join(each.replace("%", "%25").replace("/", "%2F") for each in ids)


def call_ids(path: str) -> list[str]:
    """Return the ids that a path is made of."""
    return [each.replace("%2F", "/").replace("%25", "%") for each in path.split("/")]
