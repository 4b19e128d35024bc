"""What to do about a failed request is one sentence, from the exception as from what the journal has of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from deep_sessions import advice_on, advice_on_stored, as_agent_error, end_of_error
from deep_sessions.advice import OF_REQUESTS
from deep_sessions.requests.providers import STATUSES
from pydantic_ai.exceptions import ModelHTTPError

SERVER = "http://127.0.0.1:11434"


@pytest.mark.parametrize("status", STATUSES)
def test_the_terminal_and_a_page_say_the_same(status: int) -> None:
    error = ModelHTTPError(status, "m", {"message": "No."})
    end, known = end_of_error(error), as_agent_error(error)
    assert end is not None
    stored = {"code": known.code, "message": known.message, "retry_after": known.retry_after}
    said = advice_on(end.code, "openai:m", retry_after=end.retry_after)
    assert advice_on_stored(stored, "openai:m") == said
    assert bool(said) == (end.code in OF_REQUESTS)


def test_a_server_of_this_machine_is_named_and_another_is_not() -> None:
    away = {"code": "unreachable", "message": f"the provider cannot be reached: {SERVER}: refused"}
    assert advice_on_stored(away, "openai:m") == advice_on("unreachable", "openai:m", address=SERVER)
    assert "start the server" in advice_on_stored(away, "openai:m")
    far = {"code": "unreachable", "message": "the provider cannot be reached: name not known at http://localhost.far"}
    assert advice_on_stored(far, "openai:m") == "check the network, and OPENAI_BASE_URL if it is set"


@pytest.mark.parametrize(
    ("code", "model", "said"),
    [
        ("unauthorized", "openai:m", "check OPENAI_API_KEY"),
        ("unauthorized", "other:m", "check the key of the provider"),
        ("limit_exceeded", "openai:m", ""),
        ("internal_error", "openai:m", ""),
        ("window_full", "openai:m", ""),
    ],
)
def test_what_is_no_request_has_no_advice(code: str, model: str, said: str) -> None:
    assert advice_on_stored({"code": code, "message": "x"}, model) == said
    assert advice_on_stored(None, model) == ""


def test_a_provider_says_when() -> None:
    assert advice_on("rate_limited", "openai:m") == "wait, then try again"
    assert advice_on("rate_limited", "openai:m", retry_after=90).startswith("try again after ")
    tomorrow = advice_on("overloaded", "openai:m", retry_after=timedelta(days=2).total_seconds())
    assert tomorrow.endswith(", or use another model")
    assert "-" in tomorrow
