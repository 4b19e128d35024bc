"""What a provider says if a model has no tool calls, and the file that remembers it for the next process."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from pydantic_ai.exceptions import ModelHTTPError

__all__ = ["read_refused", "refuses_tools", "write_refused"]

DAYS = 30
"""How long the answer of another process counts: a server learns tool calls with an update."""
STATUSES = frozenset({400, 404, 422, 500, 501})
"""400 by most; llama.cpp answers 500, a router without a fitting endpoint 404."""
REFUSALS = re.compile(
    r"(does|do)(n't| not) support (tools?\b|tool (use|calls?|calling)|function.?call)"  # ollama, DeepSeek, Bedrock
    r"|tool choice requires --enable-auto-tool-choice"  # vLLM
    r"|requires --enable-auto-tool-choice and --tool-call-parser"  # vLLM, with `required`
    r"|tools param requires --jinja"  # llama.cpp
    r"|no endpoints found that support tool use"  # OpenRouter
    r"|[`'\"]?tools?( calling| use)?[`'\"]? (is|are) not supported (with|by|for) th(is|e) model"  # Groq, Cloudflare
    r"|function calling is not (supported|enabled) (with|by|for) this model"  # Mistral, Together
    r"|unsupported tool_call_parser",
    re.IGNORECASE,
)


def refuses_tools(error: ModelHTTPError) -> bool:
    """Return whether an error says that the model has no tool calls, and not that one request was wrong."""
    return error.status_code in STATUSES and REFUSALS.search(_message(error.body)) is not None


def _message(body: object) -> str:
    if isinstance(body, dict):
        facts = cast("dict[str, object]", body)
        found = facts.get("message", facts.get("error", facts.get("detail", "")))
        return _message(found)
    return body if isinstance(body, str) else ""


def read_refused(path: Path, now: Callable[[], float] = time.time) -> dict[str, float]:
    """Return the models in a file, with the second of each. A damaged file counts as an empty one."""
    try:
        found: object = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    models: object = cast("dict[str, object]", found).get("models") if isinstance(found, dict) else None
    if not isinstance(models, dict):
        return {}
    oldest = now() - DAYS * 86_400
    return {
        key: float(since)
        for key, since in cast("dict[str, object]", models).items()
        if isinstance(since, int | float) and not isinstance(since, bool) and since >= oldest
    }


def write_refused(path: Path, key: str, now: Callable[[], float] = time.time) -> None:
    """Add a model to a file, beside what other processes added. Raises OSError if the folder cannot be written to."""
    models = {**read_refused(path, now), key: now()}
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"models": models}, indent=1), "utf-8")
    draft.replace(path)
