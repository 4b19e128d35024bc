"""Recognize secrets in a note: the formats that providers publish for their keys, and values called a password."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter

__all__ = ["find_secret"]

# Formats with a fixed beginning, as their providers and the public scanners of repositories describe them. A repetition
# before something else is bounded, so that searching takes linear time.
KEYS = {
    "a private key": r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY",
    "an AWS access key": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    "a GitHub token": r"\bgh[pousr]_\w{30,}|\bgithub_pat_\w{20,}",
    "a GitLab token": r"\bgl(?:pat|ptt|dt|rt|cbt|ft|soat)-[\w-]{16,}",
    "a Slack token": r"\bxox[abeoprs]-[\w-]{10,}|\bxapp-\d-[\w-]{10,}|hooks\.slack\.com/services/T\w{4,20}/",
    "an API key": r"\b(?:sk|pk|rk)[-_](?=[\w-]{0,200}\d)[\w-]{16,}",
    "a webhook secret": r"\bwhsec_[\w+/=]{16,}",
    "a Google key": r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a registry token": r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}|\bdckr_pat_[\w-]{20,}",
    "a SendGrid key": r"\bSG\.[\w-]{16,100}\.[\w-]{16,}",
    "a cloud token": r"\bdo[opr]_v1_[a-f0-9]{40,}|\bhv[sbr]\.[\w-]{20,}|\bdp\.(?:pt|st|ct)\.[\w-]{20,}",
    "a bot token": r"\b\d{8,10}:AA[\w-]{30,}",
    "a signed token (JWT)": r"\beyJ[\w-]{8,1000}\.[\w-]{8,}",
    "a password in a URL": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:(?![<{$*]|(?:password|passwd|pass|pwd|pw|secret)@)[^\s/@]{3,200}@",
    "an authorization header": r"\b(?:bearer|basic)\s{1,9}(?=\S{0,200}\d)[\w+/=.~-]{16,}",
}
_KEYS = [
    (kind, re.compile(pattern, re.I if kind.startswith(("a password", "an auth")) else 0))
    for kind, pattern in KEYS.items()
]
_NAMED = re.compile(
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credential|(?:api|access|private|secret|account|auth)[-_ ]?key)"
    r"s?"
    r"[\"'`*)\]]{0,3}(?:\s{0,3}(?P<sign>[:=])|\s{1,3}(?:is|was|ist|lautet)\s)[\s\"'`*]{0,4}(?P<value>[^\s\"'`,;]{4,200})",
    re.I,
)
"""A value that the text itself calls a secret."""
_RANDOM = re.compile(r"[A-Za-z0-9+/_=-]{32,200}")
LETTERS = 20
"""A value of letters alone is a word up to this length."""
MOST_ENTROPY = 4.6
"""Bits for each character: random Base64 of 40 characters has more, paths and long identifiers have less."""
MOST_ENTROPY_WITH_DIGITS = 4.2
"""The same, for a token with three digits or more."""


def find_secret(text: str) -> str | None:
    """Return what kind of secret a text seems to have, or None. Takes linear time.

    A net, not a proof: a secret without a known format, that the text does not call one, passes if it is short or
    looks like words.
    """
    plain = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    for kind, pattern in _KEYS:
        if pattern.search(plain):
            return kind
    for match in _NAMED.finditer(plain):
        if _is_value(match["value"].rstrip(".)]}!?"), assigned=match["sign"] is not None):
            return "a password or key"
    return "a random key" if any(_is_random(match[0]) for match in _RANDOM.finditer(plain)) else None


def _is_value(value: str, *, assigned: bool) -> bool:
    """Whether a value is a secret itself: not a placeholder, a reference or a word."""
    if (
        len(value) < 4
        or value[0] in "<{$%*[(@/~"
        or re.match(r"(?i)(?:https?:|os\.|env\b|process\.|\.{2,}|x{3,}$)", value)
    ):
        return False
    if value.isalpha():
        return assigned and len(value) > LETTERS
    if re.fullmatch(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", value):  # the name of a variable
        return False
    if not any(char.isdigit() for char in value):
        # `test-secret.yaml`, `used.input_tokens` and `Sequence[int]` are names; `correct-horse!battery` is not.
        if re.fullmatch(r"[\w.:/()\[\]{}-]+", value) and re.search(r"[._(\[]", value):
            return False
        return assigned and (len(value) > LETTERS or bool(re.search(r"[^\w:/()-]", value)))
    # A number alone is a limit or a port: `token: 4096`.
    return not re.fullmatch(r"[\d.,:]{1,8}(?:[a-zA-Z]{0,2})", value)


def _is_random(token: str) -> bool:
    kinds = (str.isupper, str.islower, str.isdigit)
    if not all(any(kind(char) for char in token) for kind in kinds) or token.count("/") > 3:
        return False
    most = MOST_ENTROPY_WITH_DIGITS if sum(char.isdigit() for char in token) >= 3 else MOST_ENTROPY
    size = len(token)
    return -sum(n / size * math.log2(n / size) for n in Counter(token).values()) > most
