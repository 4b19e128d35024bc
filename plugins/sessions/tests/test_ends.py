"""Tests of the value that says how a request ended."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest
from deep_sessions.errors import ModelError, as_agent_error
from deep_sessions.requests.ends import (
    End,
    RequestFailed,
    address_of_error,
    end_of_error,
    end_of_response,
    words_of_error,
)
from deep_sessions.requests.providers import OVERFLOWS, STATUSES
from pydantic_ai.exceptions import (
    ContentFilterError,
    FallbackExceptionGroup,
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart

from plugins.sessions.tests.recorded import RECORDED, Recorded


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.name)
def test_recorded_answers(recorded: Recorded) -> None:
    error = ModelHTTPError(recorded.status, "m", recorded.body, headers=recorded.headers)

    end = end_of_error(error)

    assert end is not None
    assert (end.kind, end.code, end.window, end.tokens) == (
        recorded.kind,
        recorded.code,
        recorded.window,
        recorded.tokens,
    )
    assert (end.retry_after, end.refused) == (recorded.retry_after, recorded.refused)
    assert end.retryable is (recorded.kind == "transient")
    assert end.words


def test_every_line_has_an_example() -> None:
    said = [str(ModelHTTPError(each.status, "m", each.body)) for each in RECORDED if each.kind == "overflow"]
    found = {
        next(line for line in OVERFLOWS if line.pattern.search(text)) for text in said if "request_too" not in text
    }

    assert {line.pattern.pattern for line in {*OVERFLOWS} - found} <= {"request_too_large"}
    assert {*STATUSES} <= {each.status for each in RECORDED}


def test_an_error_in_a_stream_has_no_status() -> None:
    error = ModelAPIError("m", "context_length_exceeded: Your input exceeds the context window of this model.")

    end = end_of_error(error)

    assert end is not None
    assert end.kind == "overflow"


def test_a_date_in_retry_after() -> None:
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)

    end = end_of_error(ModelHTTPError(503, "m", None, headers={"Retry-After": when}))

    assert end is not None
    assert end.retry_after is not None
    assert 20 < end.retry_after <= 30


@pytest.mark.parametrize(
    ("url", "address", "said"),
    [
        ("http://someone:secret@localhost:11434/v1/chat", "http://localhost:11434", "http://localhost:11434: refused"),
        ("https://models.lan/v1/chat", "https://models.lan", "refused"),  # users of a service read these words
    ],
)
def test_the_server_that_cannot_be_reached_is_named(url: str, address: str, said: str) -> None:
    error = ModelConnectionError("m", "Connection error.")
    error.__cause__ = httpx2.ConnectError("refused", request=httpx2.Request("POST", url))
    end = end_of_error(error)
    assert end is not None
    assert words_of_error(error, end) == f"the provider cannot be reached: {said}"
    assert address_of_error(error) == address


def test_an_error_without_a_request_names_no_server() -> None:
    assert address_of_error(ConnectionRefusedError(111, "refused")) == ""
    assert address_of_error(httpx2.ConnectError("refused")) == ""


@pytest.mark.parametrize(
    ("error", "kind", "code", "refused"),
    [
        pytest.param(httpx2.ConnectError("refused"), "transient", "unreachable", True, id="connect"),
        pytest.param(httpx2.ConnectError("Name or service not known"), "transient", "unreachable", True, id="dns"),
        pytest.param(httpx2.ReadError("reset"), "incomplete", "cut", False, id="read"),
        pytest.param(httpx2.RemoteProtocolError("incomplete chunked read"), "incomplete", "cut", False, id="chunks"),
        pytest.param(httpx2.ReadTimeout(""), "transient", "timed_out", False, id="timeout"),
        pytest.param(ConnectionRefusedError(111, "refused"), "transient", "unreachable", True, id="socket"),
        pytest.param(TimeoutError(), "transient", "timed_out", False, id="asyncio"),
        pytest.param(UnexpectedModelBehavior("Invalid response"), "transient", "garbled", False, id="no choices"),
    ],
)
def test_what_a_request_raises(error: Exception, kind: str, code: str, refused: bool) -> None:
    mapped = ModelConnectionError("m", str(error))
    mapped.__cause__ = error

    for each in (error, mapped) if code != "garbled" else (error,):
        end = end_of_error(each, in_request=True)
        assert end is not None
        assert (end.kind, end.code, end.refused) == (kind, code, refused)


def test_a_tool_that_cannot_connect_is_no_end_of_a_request() -> None:
    assert end_of_error(ConnectionRefusedError()) is None
    assert end_of_error(ValueError("no"), in_request=True) is None
    assert as_agent_error(ConnectionRefusedError()).code == "internal_error"


def test_the_last_of_several_models_counts() -> None:
    group = FallbackExceptionGroup("all", [ModelHTTPError(401, "a"), ModelHTTPError(503, "b")])

    end = end_of_error(group)

    assert end is not None
    assert end.status == 503


def test_a_body_that_is_an_error_with_status_200() -> None:
    assert (
        end_of_error(ModelHTTPError(200, "m", {"error": {"message": "oops"}})) or End(kind="stop")
    ).code == "garbled"


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        pytest.param(ModelResponse([TextPart("a")], finish_reason="stop"), "stop", id="stop"),
        pytest.param(ModelResponse([TextPart("a")]), "stop", id="a scripted model"),
        pytest.param(ModelResponse([ToolCallPart("t")], finish_reason="tool_call"), "tool_call", id="call"),
        pytest.param(ModelResponse([TextPart("a")], finish_reason="length"), "length", id="length"),
        pytest.param(ModelResponse([TextPart("a")], finish_reason="content_filter"), "filtered", id="filter"),
        pytest.param(ModelResponse([TextPart("a")], state="incomplete"), "incomplete", id="cut"),
    ],
)
def test_ends_of_answers(response: ModelResponse, kind: str) -> None:
    assert end_of_response(response).kind == kind


def test_errors_of_sessions_say_how_the_request_ended() -> None:
    error = as_agent_error(ModelHTTPError(429, "m", None, headers={"Retry-After": "7"}))

    assert isinstance(error, ModelError)
    assert (error.code, error.retryable, error.retry_after) == ("rate_limited", True, 7)
    assert as_agent_error(ContentFilterError("no")).code == "filtered"
    assert as_agent_error(UnexpectedModelBehavior("Exceeded maximum output retries (1)")).code == "model_error"


def test_a_failed_request_survives_pickling() -> None:
    error = RequestFailed("m", End(kind="incomplete", code="cut", words="the connection ended"))

    again = pickle.loads(pickle.dumps(error))

    assert (again.end, str(again)) == (error.end, str(error))
