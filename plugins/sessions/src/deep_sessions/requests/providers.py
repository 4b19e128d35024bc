"""What providers say when a request fails: one line for each way to say it, and what it means.

`tests/recorded.py` has a recorded example for every line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["CREDIT", "OVERFLOWS", "STATUSES", "Overflow", "Status", "overflow_of"]


class Overflow(NamedTuple):
    """How a provider says that a request is larger than the window.

    Attributes:
        provider: who says it; others copy the words.
        pattern: the words or the code. Its groups `window` and `tokens` are numbers.
    """

    provider: str
    pattern: re.Pattern[str]


def _line(provider: str, pattern: str) -> Overflow:
    number = r"[\d,_]+"
    filled = pattern.replace("<window>", f"(?P<window>{number})").replace("<tokens>", f"(?P<tokens>{number})")
    return Overflow(provider, re.compile(filled, re.I | re.S))


OVERFLOWS = (
    _line(
        "openai", r"maximum context length is <window> tokens.*?(?:resulted in|requested(?: about)?) <tokens> tokens"
    ),
    _line("openai", r"exceeds the context window of this model"),
    _line("openai", r"context_length_exceeded"),
    _line("anthropic", r"prompt is too long(?:: <tokens> tokens > <window> maximum)?"),
    _line("anthropic", r"exceed context limit: <tokens> \+ [\d,]+ > <window>"),
    _line("anthropic", r"request_too_large"),
    _line("gemini", r"input token count \(?<tokens>\)? exceeds the maximum number of tokens allowed \(?<window>"),
    _line("bedrock", r"input is too long for requested model"),
    _line("vllm", r"maximum context length is <window> tokens and your request has <tokens> input tokens"),
    _line("vllm", r"prompt \(length <tokens>\) is longer than the maximum model length of <window>"),
    _line("llama.cpp", r"request \(<tokens> tokens\) exceeds the available context size \(<window> tokens\)"),
    _line("llama.cpp", r"exceed_context_size_error|exceeds? the available context size"),
    _line("ollama", r"input (?:length )?exceeds (?:the )?(?:maximum )?context length"),
    _line("lmstudio", r"keep the first <tokens> tokens when context the overflows.*?context length of only <window>"),
    _line("lmstudio", r"greater than the context length \(n_keep: <tokens>\s*>=\s*n_ctx: <window>"),
    _line("mistral", r"prompt contains <tokens> tokens.*?too large for model with <window> maximum context length"),
    _line("xai", r"maximum prompt length is <window> but the request contains <tokens> tokens"),
    _line("sglang", r"input \(<tokens> tokens\) is longer than the model's context length \(<window> tokens\)"),
    _line("groq", r"request too large for model.*?limit <window>, requested <tokens>"),
    _line("tgi", r"`inputs` tokens \+ `max_new_tokens` must be <= <window>\. Given: <tokens>"),
)
"""The first line that matches counts: those with numbers come first. OpenRouter copies OpenAI's words."""

CREDIT = re.compile(
    r"insufficient_quota|credit balance is too low|billing_error|insufficient (?:credits|balance)|requires more credits"
    r"|exceeded your current quota",
    re.I,
)
"""What providers say with 429, 400 or 403 when an account has no money left: to wait would not help."""


class Status(NamedTuple):
    """What an HTTP status of a provider means.

    Attributes:
        kind: of the end.
        code: of the end.
        refused: whether the provider says it about itself, and nothing was spent: it is waited for.
        words: for people, after "the provider".
    """

    kind: str
    code: str
    refused: bool
    words: str


STATUSES: Mapping[int, Status] = {
    400: Status("permanent", "rejected", False, "rejects the request"),
    401: Status("permanent", "unauthorized", False, "does not accept the API key"),
    402: Status("permanent", "no_credit", False, "says that the account has no credit"),
    403: Status("permanent", "unauthorized", False, "does not allow this API key to use the model"),
    404: Status("permanent", "unknown_model", False, "does not know the model, or its address is wrong"),
    408: Status("transient", "timed_out", False, "did not answer in time"),
    409: Status("transient", "conflict", False, "was busy with the same data"),
    413: Status("overflow", "window_full", False, "says that the request is too large"),
    422: Status("permanent", "rejected", False, "rejects the request"),
    425: Status("transient", "conflict", False, "was not ready"),
    429: Status("transient", "rate_limited", True, "allows no more requests now"),
    # It took the request on: what broke it may break it again, so it is not waited for as a provider that is down.
    500: Status("transient", "server_error", False, "has an error of its own"),
    502: Status("transient", "unavailable", True, "is not available"),
    503: Status("transient", "unavailable", True, "is not available"),
    504: Status("transient", "unavailable", True, "is not available"),
    529: Status("transient", "overloaded", True, "is overloaded"),
}
"""Another status below 500 is permanent as 400 is, and one above is transient as 503 is."""


def overflow_of(said: str) -> tuple[int | None, int | None] | None:
    """Return the window and the size of the request, in tokens, as far as the provider says; None for no overflow."""
    for line in OVERFLOWS:
        if found := line.pattern.search(said):
            groups = found.groupdict()
            return _number(groups.get("window")), _number(groups.get("tokens"))
    return None


def _number(text: str | None) -> int | None:
    digits = re.sub(r"\D", "", text or "")
    return int(digits) if digits else None
