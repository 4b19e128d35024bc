"""What providers say when a request fails: one line for each way to say it, and what it means.

`tests/recorded.py` has a recorded example for every line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

__all__ = ["OVERFLOWS", "STATUSES", "Overflow", "Status", "has_no_credit", "is_about_a_file", "overflow_of"]


class Overflow(NamedTuple):
    """How a provider says that a request is larger than the window.

    Attributes:
        provider: who says it; others copy the words.
        words: the words or the code, as a pattern. `<window>` and `<tokens>` stand for numbers.
    """

    provider: str
    words: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """The words as a regular expression, with the groups `window` and `tokens`."""
        return _pattern(self.words)


@cache  # compiled at the first error: all of them cost 3 ms, which each start would pay
def _pattern(words: str) -> re.Pattern[str]:
    for name in ("window", "tokens"):
        words = words.replace(f"<{name}>", rf"(?P<{name}>[\d,_]+)")
    return re.compile(words, re.I | re.S)


OVERFLOWS = (
    Overflow(
        "openai", r"maximum context length is <window> tokens.*?(?:resulted in|requested(?: about)?) <tokens> tokens"
    ),
    Overflow("openai", r"exceeds the context window of this model"),
    Overflow("openai", r"context_length_exceeded"),
    Overflow("anthropic", r"prompt is too long(?:: <tokens> tokens > <window> maximum)?"),
    Overflow("anthropic", r"exceed context limit: <tokens> \+ [\d,]+ > <window>"),
    Overflow("anthropic", r"request_too_large"),
    Overflow("gemini", r"input token count \(?<tokens>\)? exceeds the maximum number of tokens allowed \(?<window>"),
    Overflow("bedrock", r"input is too long for requested model"),
    Overflow("vllm", r"maximum context length is <window> tokens and your request has <tokens> input tokens"),
    Overflow(
        "vllm", r"maximum context length is <window> tokens.*?prompt contains at least \d"
    ),  # it stops counting there
    Overflow("vllm", r"prompt \(length <tokens>\) is longer than the maximum model length of <window>"),
    Overflow("llama.cpp", r"request \(<tokens> tokens\) exceeds the available context size \(<window> tokens\)"),
    Overflow("llama.cpp", r"exceed_context_size_error|exceeds? the available context size"),
    Overflow("ollama", r"input (?:length )?exceeds (?:the )?(?:maximum )?context length"),
    Overflow(
        "lmstudio", r"keep the first <tokens> tokens when context the overflows.*?context length of only <window>"
    ),
    Overflow("lmstudio", r"greater than the context length \(n_keep: <tokens>\s*>=\s*n_ctx: <window>"),
    Overflow("mistral", r"prompt contains <tokens> tokens.*?too large for model with <window> maximum context length"),
    Overflow("xai", r"maximum prompt length is <window> but the request contains <tokens> tokens"),
    Overflow("sglang", r"input \(<tokens> tokens\) is longer than the model's context length \(<window> tokens\)"),
    Overflow("groq", r"request too large for model.*?limit <window>, requested <tokens>"),
    Overflow("tgi", r"`inputs` tokens \+ `max_new_tokens` must be <= <window>\. Given: <tokens>"),
)
"""The first line that matches counts: those with numbers come first. OpenRouter copies OpenAI's words."""

CREDIT = (
    r"insufficient_quota|credit balance is too low|billing_error|insufficient (?:credits|balance)|requires more credits"
    r"|exceeded your current quota"
)
"""What providers say with 429, 400 or 403 when an account has no money left: to wait would not help."""

FILES = (
    r"image|picture|pixels|audio|video|vision|multi-?modal|mmproj|\bpdf\b|document|media.?type|mime.?type|attachment"
    r"|content.(?:part|type|block)|message.format|file.?(?:id|data|ur[il])|unsupported file|base64"
)
"""What providers say of a file in a request that they do not take, or not in this size or number, or not any more."""


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


def is_about_a_file(said: str) -> bool:
    """Whether a provider speaks of a file."""
    return re.search(FILES, said, re.I) is not None


def has_no_credit(said: str) -> bool:
    """Return whether the provider says that the account has no money left."""
    return bool(_pattern(CREDIT).search(said))


def _number(text: str | None) -> int | None:
    digits = re.sub(r"\D", "", text or "")
    return int(digits) if digits else None
