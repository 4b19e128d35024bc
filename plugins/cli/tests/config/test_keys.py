"""Stored keys of providers, and the choice of a model at the first run."""

from __future__ import annotations

import json
import os
import stat
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from deep_cli.config.keys import delete_key, load_key, set_key, stored_keys, variable_of
from deep_cli.failure import Failure
from deep_cli.run.first_run import find_servers

from plugins.cli.tests.chat_terminal import CTRL_D, Terminal
from tests.stubs import OpenAIStub, Script

SECRET = "sk-canary-0123456789"


@pytest.mark.slow
def test_a_stored_key_is_the_users_alone_is_used_and_is_shown_nowhere(deep: Any) -> None:
    with OpenAIStub(Script("fine")) as stub:
        env = {name: value for name, value in stub.env.items() if name != "OPENAI_API_KEY"}
        said = [deep.piped(f"{SECRET}\n", "keys", "set", "openai", env=env).ok()]
        said.append(deep.piped("", "run", "hello", "--model", "openai-chat:stub", env=env).ok())
        said += [deep.piped("", "keys", *words, env=env).ok() for words in (["list"], ["delete", "openai"])]
    file = deep.environment.home / ".local/share/deep/keys.json"
    assert said[1].out == "fine\n"
    assert "OPENAI_API_KEY" in said[2].out
    assert not any(SECRET in done.out + done.err for done in said)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert SECRET not in file.read_text()  # it was deleted


@pytest.mark.parametrize("value", ["", "two words", "x" * 5_000, "sk-\x1b[2J", "schlüssel"])
def test_what_is_no_key_is_refused(value: str) -> None:
    with pytest.raises(Failure, match="no key"):
        set_key("openai", value)
    assert stored_keys() == {}


def test_the_environment_wins_and_a_misspelled_provider_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    set_key("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", "of the environment")
    load_key("openai:gpt-5.2")
    assert os.environ["OPENAI_API_KEY"] == "of the environment"
    with pytest.raises(Failure, match="Did you mean 'openai'"):
        variable_of("opnai")
    with pytest.raises(Failure, match="is not stored"):
        delete_key("anthropic")


class _Models(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "llama\x1b[2J"}, {"id": "qwen"}]}).encode()
        if self.path == "/v1/models":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_local_servers_are_asked_for_their_models_and_others_are_left_out() -> None:
    with HTTPServer(("127.0.0.1", 0), _Models) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        found = find_servers(
            [
                ("ollama", f"http://127.0.0.1:{port}/v1"),
                ("vllm", f"http://127.0.0.1:{port}/other"),
                ("llama.cpp", "http://127.0.0.1:1/v1"),
            ]
        )
        server.shutdown()
    (one,) = found
    assert (one.name, one.models) == ("ollama", ("llama\x1b[2J", "qwen"))


@pytest.mark.slow
def test_without_a_model_a_person_chooses_one(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", "demo")
    with Terminal(deep, "chat", env={}) as terminal:
        terminal.expect("No model is named. Choose one:")
        shown = terminal.expect("demo:tour  a script, without a key")
        assert "openai:gpt-5.2  (needs OPENAI_API_KEY)" in shown
        number = shown.rpartition("demo:tour")[0].split()[-1]
        terminal.expect("model (")
        terminal.type(f"{number}\n")
        terminal.prompt()
        assert terminal.display[-2] == "ready · ask · demo:tour"
        terminal.type(CTRL_D)
        assert terminal.end() == 0


def test_the_folder_of_the_data_is_made_for_the_user_alone(own_home: Path) -> None:
    set_key("openai", SECRET)
    assert stat.S_IMODE((own_home / ".local/share/deep").stat().st_mode) == 0o700
