"""The first run: no model is named, so look for local servers and let the user choose."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from deep_sessions import PROVIDER_KEYS

from ..config.keys import load_key, set_key, stored_keys
from ..terminal.output import ask, ask_hidden, say
from ..terminal.screen import label

__all__ = ["LocalServer", "choose_model", "chooser", "find_servers"]

ADDRESSES = (
    ("ollama", "http://localhost:11434/v1"),
    ("vllm", "http://localhost:8000/v1"),
    ("llama.cpp", "http://localhost:8080/v1"),
    ("lmstudio", "http://localhost:1234/v1"),
)
WAIT = 0.5
"""Seconds that a local server may take to answer."""
BYTES = 200_000
"""Bytes of its answer that are read."""
MODELS = {
    "anthropic": "anthropic:claude-sonnet-4-5",
    "openai": "openai:gpt-5.2",
    "google": "google:gemini-2.5-pro",
    "openrouter": "openrouter:anthropic/claude-sonnet-4.5",
}
"""Providers that are offered, each with a model to begin with."""


@dataclass(frozen=True)
class LocalServer:
    """A server on this machine that speaks OpenAI's API.

    Attributes:
        name: the program that usually listens there.
        address: its base URL.
        models: the names of its models.
    """

    name: str
    address: str
    models: tuple[str, ...]

    def use(self, model: str) -> str:
        """Set the environment of this process for the server; return the model's id."""
        if self.name == "ollama":
            os.environ.setdefault("OLLAMA_BASE_URL", self.address)
            return f"ollama:{model}"
        os.environ["OPENAI_BASE_URL"] = self.address
        os.environ.setdefault("OPENAI_API_KEY", "none")
        return f"openai-chat:{model}"


def find_servers(addresses: Sequence[tuple[str, str]] = ADDRESSES) -> list[LocalServer]:
    """Ask the usual local servers for their models, all at once, each for at most half a second."""
    with ThreadPoolExecutor(len(addresses)) as pool:
        return [found for found in pool.map(_ask, addresses) if found is not None]


def _ask(place: tuple[str, str]) -> LocalServer | None:
    from urllib.request import ProxyHandler, build_opener

    name, address = place
    try:
        # Without a proxy: this asks this machine and no other.
        with build_opener(ProxyHandler({})).open(f"{address}/models", timeout=WAIT) as answer:
            data: Any = json.loads(answer.read(BYTES))
        models = tuple(str(model["id"]) for model in data["data"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return LocalServer(name, address, models) if models else None


def chooser() -> Callable[[], str] | None:
    """Return `choose_model` if a person is at the terminal, to type and to read; else None."""
    return choose_model if sys.stdin.isatty() and sys.stderr.isatty() else None


def choose_model() -> str:
    """Let the user choose a model on the terminal, and store its key if it needs one.

    Raises:
        click.Abort: the user chose none.
        Failure: the key cannot be stored.
    """
    servers = find_servers()
    choices: list[tuple[str, str, LocalServer | None]] = [
        (f"{label(model)}  on {server.name}, {server.address}", model, server)
        for server in servers
        for model in server.models[:5]
    ]
    known = {*stored_keys()}
    for provider, model in MODELS.items():
        has_key = PROVIDER_KEYS[provider] in known or PROVIDER_KEYS[provider] in os.environ
        choices.append((f"{model}{'' if has_key else f'  (needs {PROVIDER_KEYS[provider]})'}", model, None))
    choices.append(("demo:tour  a script, without a key", "demo:tour", None))
    say("No model is named. Choose one:\n", err=True)
    for number, (text, _, _) in enumerate(choices, 1):
        say(f"  {number:>2}  {text}", err=True)
    answer = ask("\nmodel", default="1", among=[str(number) for number in range(1, len(choices) + 1)], err=True)
    _, model, server = choices[int(answer) - 1]
    if server is not None:
        model = server.use(model)
    load_key(model)
    variable = PROVIDER_KEYS.get(model.partition(":")[0])
    if server is None and variable is not None and not os.environ.get(variable):
        key = ask_hidden(variable)
        say(f"{variable} is stored in {set_key(variable, key)}", err=True)
        os.environ[variable] = key.strip()
    say(
        f"\nTo keep it: export DEEP_MODEL={model}, or [agent] model in config.toml (deep config init --user).", err=True
    )
    if server is not None and server.name != "ollama":
        say(f"And: export OPENAI_BASE_URL={server.address} OPENAI_API_KEY=none", err=True)
    return model
