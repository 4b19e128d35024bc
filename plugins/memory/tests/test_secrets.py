"""Secrets are refused, and what people note of a project is not."""

from __future__ import annotations

import base64
import random
import re
import string
from pathlib import Path

import pytest
from deep_memories.errors import MemoryRefused
from deep_memories.secrets import _NAMED, find_secret
from deep_memories.secrets import KEYS as KNOWN
from deep_memories.store import Store
from hypothesis import given
from hypothesis import strategies as st

DICE = random.Random(7)


def drawn(size: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(DICE.choice(alphabet) for _ in range(size - 3)) + "aB7"


# Joined from pieces, so that no scanner of repositories takes this file for a leak.
KEYS = {
    "anthropic": "sk-" + "ant-api03-" + drawn(93),
    "openai": "sk-" + "proj-" + drawn(48),
    "openai, old": "sk-" + drawn(48),
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws secret": "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY",
    "github": "ghp_" + drawn(36),
    "github, fine": "github_pat_" + drawn(22) + "_" + drawn(59),
    "gitlab": "glpat-" + drawn(20),
    "slack": "xoxb-" + "123456789012-1234567890123-" + drawn(24),
    "slack hook": "https://hooks.slack.com/services/" + "T024BE7LH/B024BE7LH/" + drawn(24),
    "stripe": "sk_live_" + drawn(24),
    "google": "AIza" + "Sy" + drawn(33),
    "hugging face": "hf_" + drawn(34),
    "npm": "npm_" + drawn(36),
    "pypi": "pypi-" + "AgEIcHlwaS5vcmc" + drawn(60),
    "sendgrid": "SG." + drawn(22) + "." + drawn(43),
    "telegram": "123456789:" + "AA" + drawn(33),
    "vault": "hvs." + drawn(24),
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0." + drawn(43),
    "pem": "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "openssh": "-----BEGIN OPENSSH " + "PRIVATE KEY-----",
    "url": "postgresql://app:" + "s3cretpass@db.example.org/app",
    "redis": "redis://:" + "hunter2@localhost:6379",
    "header": "curl -H 'Authorization: Bearer " + drawn(32) + "'",
    "random": base64.b64encode(DICE.randbytes(32)).decode().replace("/", "x"),
}
NAMED = [
    "password: hunter2",
    "The password is hunter2.",
    "The admin password is `hunter2`",
    'DB_PASSWORD="correct-horse!battery"',
    "PASSWORD=supersecretpassphraselong",
    "api_key = 8f14e45fceea167a",
    "secret: 5ebe2294ecd0e0f08eab7690d2a6ee69",
    "passphrase: Tr0ub4dor&3",
    "the token is 4f9a1c77",
    "Password: correct-horse-battery-staple",
    "https://example.org/api?token=4f9a1c77",
    "aws_secret_access_key = " + KEYS["aws secret"],
    "PIN of the vault: ignore; pwd: 4711abcd",
]
FINE = [
    "Run `make test`, not pytest; it takes 3 minutes.",
    "The password is in 1Password, vault Engineering.",
    "Ask Ann for the API key.",
    "password: ask Ann",
    "api_key = os.environ['API_KEY']",
    "The token is rotated weekly by the platform team.",
    "token: ${GITHUB_TOKEN}",
    "Set the password with PASSWORD=<your password>",
    "ANTHROPIC_API_KEY must be set in .env",
    "The key is read from the variable ANTHROPIC_API_KEY: see settings.py",
    "secret: DATABASE_PASSWORD",
    "A request costs 4,000 tokens: too many.",
    "max_token: 4096",
    "Commit 5ebe2294ecd0e0f08eab7690d2a6ee69aabbccdd fixed the race.",
    "sha256 of the release: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "Session id 3f2504e0-4f89-11d3-9a0c-0305e82c3301 shows the bug.",
    "See https://example.org/docs/a/b?page=2#install and http://localhost:8000/api",
    "The user prefers tabs, British spelling and short commits.",
    "plugins/memory/src/deep_memories/store.py holds the lock; tests/test_prefix_stability.py is slow",
    "test_what_was_sent_is_never_rewritten_by_any_plugin_at_the_wire fails on Tuesdays",
    "Contact: ann@example.org, phone 020 7946 0958",
    "Deploy with git@github.com:acme/site.git",
    "input_tokens=used.input_tokens, output_tokens=self.progress.output_tokens",
    "def stop(token: CancellationToken | None, tokens: Sequence[int]) -> None",
    "The store is at postgresql://user:password@host/database in every example",
    "sk-learn 1.5 is pinned because of a bug.",
    "The secret of good tests: real parts.",
    "Authentication is by OAuth; basic authentication was removed.",
]


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_of_a_known_format_is_found(kind: str) -> None:
    assert find_secret(KEYS[kind]) is not None
    assert find_secret(f"Use {KEYS[kind]} for staging.") is not None


@pytest.mark.parametrize("text", NAMED)
def test_a_value_that_the_text_calls_a_secret_is_found(text: str) -> None:
    assert find_secret(text) is not None


@pytest.mark.parametrize("text", FINE)
def test_what_people_note_is_kept(text: str) -> None:
    assert find_secret(text) is None


def test_invisible_and_wide_characters_hide_nothing() -> None:
    assert find_secret("gh\u200bp_" + drawn(36)) is not None
    assert find_secret("ｐassword： hunter2") is not None


@pytest.mark.parametrize("kind", ["anthropic", "pem", "url"])
def test_a_secret_is_refused_and_leaves_no_file(store: Store, kind: str) -> None:
    with pytest.raises(MemoryRefused, match="secrets are not kept") as caught:
        store.remember("deploy", KEYS[kind])
    assert KEYS[kind] not in str(caught.value)
    assert not Path(store.folder).exists()


def test_the_topic_counts_as_the_name_of_the_value(store: Store) -> None:
    with pytest.raises(MemoryRefused, match="a password or key"):
        store.remember("Database password", "hunter2")
    with pytest.raises(MemoryRefused, match="a GitHub token"):
        store.remember("ghp_" + drawn(36), "of the robot")


@given(st.text(max_size=200), st.sampled_from(sorted(KEYS.values())), st.text(max_size=200))
def test_a_key_is_found_between_any_text(before: str, key: str, after: str) -> None:
    assert find_secret(f"{before} {key} {after}") is not None


def test_no_repetition_before_something_else_is_unbounded() -> None:
    """So searching takes linear time: an unbounded one could begin at each of its own characters again."""
    for pattern in [*KNOWN.values(), _NAMED.pattern]:
        plain = re.sub(r"\[[^]]*\]|\\.", "x", pattern)  # classes and escapes may have any sign
        assert re.findall(r"(?:[*+]|\{\d+,\})(?!$|\|)", plain) == [], pattern
