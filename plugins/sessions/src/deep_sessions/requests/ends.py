"""How a request to a model ended: one value, made from the provider's answer or exception, for every interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import urlsplit

from pydantic_ai import exceptions

from deep_core.plugin_api import visible

from .providers import STATUSES, Status, has_no_credit, is_about_a_file, overflow_of

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

__all__ = [
    "CONTINUE",
    "NOT_WHOLE",
    "End",
    "EndKind",
    "RequestFailed",
    "address_of_error",
    "end_of_error",
    "end_of_response",
    "garbled",
    "is_about_files",
    "words_of_end",
]

EndKind = Literal["stop", "tool_call", "length", "filtered", "incomplete", "transient", "overflow", "permanent"]

SHOWN = 120
"""Most characters of an answer that cannot be read, in words for people."""
WIDTH = 200
"""Most characters of a provider's message."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CUT = "the answer was cut at the model's limit of tokens"
FILTERED = "the provider's content filter ended the answer"
INCOMPLETE = "the connection ended before the answer did"
CONTINUE = "To go on from there, send: continue"
NOT_WHOLE: Mapping[str, str] = {"length": CUT, "filtered": FILTERED, "incomplete": INCOMPLETE}
"""Why an answer is not whole, by how its request ended: the words of every interface."""
_FINISHED: Mapping[str, EndKind] = {
    "stop": "stop",
    "tool_call": "tool_call",
    "length": "length",
    "content_filter": "filtered",
}


_RAW: Mapping[str, EndKind] = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "length"),
    "model_context_window_exceeded": "length",
    "incomplete": "incomplete",
    **dict.fromkeys(("content_filter", "safety", "refusal", "sensitive", "error_content_filter"), "filtered"),
}
"""Reasons that compatible servers send and Pydantic AI does not know."""


@dataclass(frozen=True, kw_only=True)
class End:
    """How a request ended.

    Attributes:
        kind: `stop`, `tool_call`; `length` (cut at a limit of tokens), `filtered`; `incomplete` (the connection or the
            stream ended first), `transient` (the same request can succeed later), `overflow` (larger than the window),
            `permanent`.
        code: a stable name of the cause, such as `rate_limited`; "" for `stop` and `tool_call`.
        words: the cause, for people.
        status: the HTTP status; None without one.
        retry_after: seconds that the provider asks to wait; None if it does not say.
        final: whether the provider asks not to send it again.
        refused: whether the provider did not begin, and says so about itself: it is down, or allows no more now.
        window: the window of the model in tokens, where an overflow says it.
        tokens: the size of the request, where an overflow says it.
    """

    kind: EndKind
    code: str = ""
    words: str = ""
    status: int | None = None
    retry_after: float | None = None
    final: bool = False
    refused: bool = False
    window: int | None = None
    tokens: int | None = None

    @property
    def retryable(self) -> bool:
        """Whether the same request can succeed later."""
        return self.kind in ("transient", "incomplete")

    @property
    def is_whole(self) -> bool:
        """Whether the model said all that it wanted to say."""
        return self.kind in ("stop", "tool_call")


class RequestFailed(exceptions.ModelAPIError):
    """A request failed in a way that no exception of Pydantic AI stands for: silence, a cut stream, a broken answer.

    Attributes:
        end: how it ended.
    """

    def __init__(self, model_name: str, end: End, message: str = "") -> None:
        super().__init__(model_name, message or end.words, retry_after=end.retry_after)
        self.end = end

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.model_name, self.end, self.message)


def end_of_response(response: ModelResponse) -> End:
    """Return how the request of an answer ended.

    Adapters without a finish reason, such as scripted models, count as `stop`.
    """
    raw = str((response.provider_details or {}).get("finish_reason") or "").lower()
    kind = _FINISHED.get(response.finish_reason or "") or _RAW.get(raw)
    if kind == "incomplete" or (response.state == "incomplete" and response.finish_reason is None):
        return End(kind="incomplete", code="cut", words=INCOMPLETE)
    if kind == "length":
        return End(kind="length", code="length", words=CUT)
    if kind == "filtered":
        return End(kind="filtered", code="filtered", words=FILTERED)
    return End(kind="tool_call" if response.tool_calls else "stop")


def words_of_end(reason: str) -> str:
    """Return what an interface says below an answer, by how its request ended; "" below one that is whole."""
    why = NOT_WHOLE.get(reason, "")
    return f"{why}. {CONTINUE}" if why and reason != "filtered" else why


def words_of_error(error: BaseException, end: End) -> str:
    """Return what every interface says of a request that failed: the cause, and what the provider or the system said.

    Args:
        error: what was raised.
        end: how the request ended. Without words of its own, the result is "".
    """
    said = _cause(error) if end.code == "unreachable" else _message(error) if end.code != "window_full" else ""
    status = f" (HTTP {end.status})" if end.status else ""
    return f"{end.words}{status}{f': {said}' if said else ''}" if end.words else ""


def _message(error: BaseException) -> str:
    """Return the provider's message, where its error has the usual shape: `{"message": …}`, or that in `error`."""
    for cause in _causes(error):
        if isinstance(cause, exceptions.ModelHTTPError):
            body: Any = cause.body
            if isinstance(body, Mapping):
                fields = cast("Mapping[str, Any]", body)
                inner = fields.get("error", fields)
                body = cast("Mapping[str, Any]", inner).get("message") if isinstance(inner, Mapping) else inner
            return _line(str(body)) if body else ""
    return ""


def _cause(error: BaseException) -> str:
    """Return what the socket said, which says more than `Connection error.`, and which server of this machine it is.

    Not another address: these words reach the users of a service, who need not know its network.
    """
    address = address_of_error(error)
    return ": ".join(filter(None, (address if urlsplit(address).hostname in LOOPBACK else "", _of_socket(error))))


def address_of_error(error: BaseException) -> str:
    """Return the server whose request failed, as `http://localhost:11434`; "" if the exception does not say it."""
    for cause in _causes(error):
        try:
            url = cast("Any", cause).request.url
            return f"{url.scheme}://{url.netloc.decode('ascii')}"
        except (AttributeError, RuntimeError, UnicodeError):
            continue  # httpx raises RuntimeError for an error that it has no request of
    return ""


def _of_socket(error: BaseException) -> str:
    while error.__cause__ is not None or (error.__context__ is not None and not error.__suppress_context__):
        error = error.__cause__ or error.__context__ or error
    return "" if isinstance(error, exceptions.ModelAPIError) else _line(str(error))


def _line(text: str) -> str:
    return " ".join(visible(text).split())[:WIDTH]


def end_of_error(error: BaseException, *, in_request: bool = False) -> End | None:
    """Return how the request behind an exception ended; None if it is not about a request to a model.

    Args:
        error: the exception, of a run or of a request.
        in_request: whether a request raised it: then a broken connection is the provider's, not a tool's.
    """
    causes = [*_causes(error)]
    for cause in causes:
        if isinstance(cause, RequestFailed):
            return cause.end
    for cause in causes:
        if isinstance(cause, exceptions.ContentFilterError):
            return End(kind="filtered", code="filtered", words=FILTERED)
        if any(cls.__name__ in ("OutputTokenLimitExceeded", "IncompleteToolCall") for cls in type(cause).__mro__):
            return End(kind="length", code="length", words=CUT)
        if isinstance(cause, exceptions.ModelHTTPError):
            return _of_status(cause)
        if isinstance(cause, exceptions.ModelAPIError):
            return _of_api_error(cause)
        if in_request and isinstance(cause, exceptions.UnexpectedModelBehavior):
            return garbled(" ".join(str(cause).split())[:SHOWN])
        if in_request and is_transport_error(cause):
            return _unreachable(cause)
    return None


def is_about_files(error: Exception) -> bool:
    """Whether a request may have failed for a file in it.

    The provider says so, or nothing was sent: an adapter raises whatever it likes for a file that it cannot write, and
    one at an address may be gone.
    """
    if end_of_error(error, in_request=True) is None:
        return not isinstance(error, exceptions.AgentRunError)
    return any(
        isinstance(cause, exceptions.ModelHTTPError)
        and cause.status_code in (400, 404, 413, 415, 422, 500, 501)
        and is_about_a_file(_said(cause))
        for cause in _causes(error)
    )


def is_transport_error(error: BaseException) -> bool:
    """Whether an exception says that a server could not be reached, or that its connection broke."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    libraries = ("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "botocore", "grpc", "ssl", "socket")
    named = ("TransportError", "NetworkError", "TimeoutException", "ClientError", "ConnectionError", "SSLError")
    return any(
        (cls.__module__ or "").partition(".")[0] in libraries and cls.__name__.endswith(named)
        for cls in type(error).__mro__
    )


def garbled(why: str) -> End:
    """Return the end of a request whose answer is not what the wire promises."""
    return End(kind="transient", code="garbled", words=f"the provider's answer cannot be read ({why})")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, the ones in its group, and what caused them; each once."""
    todo, seen = [error], set[int]()
    while todo:
        each = todo.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            # A chain of fallbacks: the last one failed last.
            todo += reversed(cast("BaseExceptionGroup[BaseException]", each).exceptions)
        if each.__cause__ is not None:
            todo.append(each.__cause__)


def _of_status(error: Any) -> End:
    said, retry_after = _said(error), error.retry_after
    headers: dict[str, str] = error.headers or {}
    if retry_after is None:
        retry_after = _seconds(headers.get("retry-after"))
    status: int = error.status_code
    if (full := _overflow(error, said)) is not None:
        return full
    if has_no_credit(said):
        return _end(STATUSES[402], status, None)
    if status < 400:  # an error body with status 200
        return (
            garbled("an error with a status of success") if not _says_busy(said) else _end(STATUSES[503], status, None)
        )
    known = STATUSES.get(status) or STATUSES[503 if status >= 500 else 400]
    if status >= 500 and _says_busy(said):
        known = STATUSES[529]
    return replace(_end(known, status, retry_after), final=headers.get("x-should-retry", "").lower() == "false")


def _of_api_error(error: Any) -> End:
    """Return the end for an error without a status: of a stream that was open, or of the connection."""
    said = _said(error)
    if (full := _overflow(error, said)) is not None:
        return full
    if isinstance(error, exceptions.ModelQuotaExceededError) or has_no_credit(said):
        return _end(STATUSES[402], None, None)
    if isinstance(error, exceptions.ModelRateLimitError):
        return _end(STATUSES[429], None, error.retry_after)
    if isinstance(error, exceptions.ModelRequestTimeout):
        return End(kind="transient", code="timed_out", words="the request took longer than timeout_ms allows")
    if isinstance(error, exceptions.ModelAuthenticationError):
        return _end(STATUSES[401], None, None)
    if isinstance(error, exceptions.ModelNotFoundError):
        return _end(STATUSES[404], None, None)
    if isinstance(error, exceptions.ModelRequestRejectedError):
        return _end(STATUSES[400], None, None)
    if isinstance(error, exceptions.ModelUnavailableError):
        return _end(STATUSES[529 if _says_busy(said) else 503], None, error.retry_after)
    if isinstance(error, exceptions.ModelConnectionError) or any(is_transport_error(c) for c in _causes(error)):
        return _unreachable(error)
    if isinstance(error, exceptions.ModelServerError) or _says_busy(said):
        return _end(STATUSES[529 if _says_busy(said) else 500], None, error.retry_after)
    if re.search(r"ended without a `?finish_reason", said):
        return End(kind="incomplete", code="cut", words=INCOMPLETE)
    if re.search(r"decode|expected a json response|empty response|no choices", said, re.I):
        return garbled(" ".join(str(error).split())[:SHOWN])
    return _end(STATUSES[500], None, error.retry_after)


def _overflow(error: Any, said: str) -> End | None:
    status: int | None = getattr(error, "status_code", None)
    found = overflow_of(said) if status in (None, 400, 413, 422, 200, 500) else None
    typed = isinstance(error, exceptions.ModelContextWindowExceededError)
    if found is None and not typed and status != 413:
        return None
    window, tokens = found or (None, None)
    window = window or _field(error, "n_ctx")
    words = "the request is larger than the model's window"
    if window and tokens:
        words = f"the request has {tokens:,} tokens, and the model's window {window:,}"
    return End(kind="overflow", code="window_full", words=words, status=status, window=window, tokens=tokens)


def _field(error: Any, name: str) -> int | None:
    body: Any = error.body
    inner: Any = cast("Mapping[str, Any]", body).get("error", body) if isinstance(body, Mapping) else None
    value = cast("Mapping[str, Any]", inner).get(name) if isinstance(inner, Mapping) else None
    return value if isinstance(value, int) else None


def _end(known: Status, status: int | None, retry_after: float | None) -> End:
    return End(
        kind=cast("EndKind", known.kind),
        code=known.code,
        words=f"the provider {known.words}",
        status=status,
        retry_after=retry_after,
        refused=known.refused,
    )


def _unreachable(error: BaseException) -> End:
    causes = [*_causes(error)]
    names = " ".join(cls.__name__ for each in causes for cls in type(each).__mro__)
    if "ConnectTimeout" not in names and "ConnectError" not in names:
        if "Timeout" in names:
            return End(kind="transient", code="timed_out", words="the provider did not answer in time")
        if re.search("ReadError|RemoteProtocol|ConnectionReset|IncompleteRead", names):
            return End(kind="incomplete", code="cut", words=INCOMPLETE)
    return End(kind="transient", code="unreachable", words="the provider cannot be reached", refused=True)


def _seconds(text: str | None) -> float | None:
    """Read what Pydantic AI does not: `1.5` and `1.5s`, as gateways write it."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)s?\s*", text or "")
    return float(found[1]) if found else None


def _says_busy(said: str) -> bool:
    return re.search(r"overloaded|over capacity|at capacity|too many (?:concurrent )?requests", said, re.I) is not None


def _said(error: Any) -> str:
    """Return all that the provider said, as one text: its message and its body."""
    body: object = error.body
    text = body if isinstance(body, str) else json.dumps(body, default=str) if body is not None else ""
    return f"{error} {text}"
