"""The script a fake model plays: turns, what a turn may see of its request, and the position in the script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

Finish = Literal["stop", "length", "tool_calls", "content_filter"]
FINISHES: tuple[Finish, ...] = ("stop", "length", "tool_calls", "content_filter")
Break = Literal["not-json", "wrong-shape", "cut"]
BREAKS: tuple[Break, ...] = ("not-json", "wrong-shape", "cut")


class ScriptError(ValueError):
    """The script itself is wrong: says which turn and which key."""


class ScriptExhausted(RuntimeError):
    """A request came after the script's last turn and the script has no `then`."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one request, counted as Pydantic AI counts them.

    Attributes:
        input_tokens: Whole prompt, the cached tokens included.
        output_tokens: Tokens of the answer.
        cache_read_tokens: Part of `input_tokens` that came from the cache.
        cache_write_tokens: Part of `input_tokens` that was written to the cache.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __post_init__(self) -> None:
        counts = (self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)
        if min(counts) < 0 or self.cache_read_tokens + self.cache_write_tokens > self.input_tokens:
            raise ScriptError(f"usage {self}: counts are not negative, and cached tokens are part of input_tokens")


@dataclass(frozen=True)
class Call:
    """One tool call.

    Attributes:
        name: The tool.
        args: Its arguments; a string goes out verbatim, so it may be broken JSON.
        id: The call's id; None lets the player give one that is unique in the script.
    """

    name: str
    args: Mapping[str, Any] | str = field(default_factory=dict[str, Any])
    id: str | None = None

    @property
    def json(self) -> str:
        """The arguments as the JSON text that goes over the wire."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args, ensure_ascii=False)

    @property
    def arguments(self) -> Any:
        """The arguments decoded; raises `json.JSONDecodeError` where they are broken on purpose."""
        return json.loads(self.args) if isinstance(self.args, str) else self.args


@dataclass(frozen=True)
class Turn:
    """One answer of the model: text, tool calls (several are parallel), or both.

    Attributes:
        text: What the model says, sent before the calls.
        calls: The tool calls, in order.
        usage: What the provider bills; None means an estimate of four characters a token.
        finish: The finish reason; None means `tool_calls` if there are calls, else `stop`.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    finish: Finish | None = None

    @property
    def finish_reason(self) -> Finish:
        """The finish reason that is sent."""
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def chars(self) -> int:
        """Characters of the answer, for the estimate of its tokens."""
        return len(self.text) + sum(len(call.name) + len(call.json) for call in self.calls)


@dataclass(frozen=True)
class Failure:
    """The provider refuses: an HTTP error instead of an answer.

    Attributes:
        status: 400 to 599.
        message: The text inside the provider's error JSON.
        retry_after: Seconds for the `Retry-After` header, or None for no header.
        retry: Value of the `x-should-retry` header that both SDKs obey, or None for no header.
    """

    status: int = 500
    message: str = "The stub was told to fail."
    retry_after: float | None = None
    retry: bool | None = None

    def __post_init__(self) -> None:
        if not 400 <= self.status <= 599:
            raise ScriptError(f"failure status {self.status}: use 400 to 599")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell a client whether and when to try again."""
        headers: dict[str, str] = {}
        if self.retry_after is not None:
            headers["retry-after"] = f"{self.retry_after:g}"
        if self.retry is not None:
            headers["x-should-retry"] = "true" if self.retry else "false"
        return headers


@dataclass(frozen=True)
class Malformed:
    """The provider answers 200 with something broken.

    Attributes:
        how: `not-json` (text where JSON belongs), `wrong-shape` (JSON that is no answer), or `cut` (the connection
            closes in the middle of the answer).
        turn: The answer that `cut` interrupts.
    """

    how: Break = "not-json"
    turn: Turn = field(default_factory=lambda: Turn(text="This answer never ends."))

    def __post_init__(self) -> None:
        if self.how not in BREAKS:
            raise ScriptError(f"malformed {self.how!r}: use one of {', '.join(BREAKS)}")


@dataclass(frozen=True)
class Message:
    """One message of the conversation, in the same shape for every provider.

    A tool's result is a message of its own with role `tool`, also where the provider wraps it in a user message.
    """

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True)
class RequestView:
    """What a callable turn sees of the request it answers.

    Attributes:
        messages: The conversation without the leading system text.
        tools: Names of the offered tools, in the order sent.
        system: The leading system text, its parts joined by a blank line.
        model: The model name that was asked for.
        stream: Whether a stream was asked for.
        index: Number of this request, from 0.
        body: The decoded request body; None from a FunctionModel, which has no wire.
    """

    messages: Sequence[Message]
    tools: Sequence[str]
    system: str = ""
    model: str = ""
    stream: bool = False
    index: int = 0
    body: Mapping[str, Any] | None = None

    @property
    def prompt(self) -> str:
        """The last user text, or an empty string."""
        return next((message.text for message in reversed(self.messages) if message.role == "user"), "")

    @property
    def results(self) -> list[Message]:
        """The tool results since the model's last answer, in order."""
        found: list[Message] = []
        for message in reversed(self.messages):
            if message.role == "assistant":
                break
            if message.role == "tool":
                found.append(message)
        return found[::-1]


Answer: TypeAlias = Turn | Failure | Malformed
Loose: TypeAlias = "Answer | str | Call | Sequence[Call]"
Step: TypeAlias = "Loose | Callable[[RequestView], Loose]"


class Script:
    """An immutable list of turns; every player of it starts at the first.

    Args:
        *turns: Each a `Turn`, a `Failure`, a `Malformed`, a text, a `Call`, a list of parallel `Call`s, or a callable
            from `RequestView` to one of these.
        then: Answers every request after the last turn; None means such a request is an error.

    Raises:
        ScriptError: If a turn is none of these.
    """

    def __init__(self, *turns: Step, then: Step | None = None) -> None:
        self.turns: tuple[Answer | Callable[[RequestView], Loose], ...] = tuple(
            turn if callable(turn) else as_answer(turn, f"turn {number}") for number, turn in enumerate(turns)
        )
        self.then: Answer | Callable[[RequestView], Loose] | None = (
            then if then is None or callable(then) else as_answer(then, "then")
        )

    @classmethod
    def from_json(cls, text: str) -> Script:
        """Read a JSON list of turns.

        A turn is a string, `{"text", "calls": [{"name", "args", "id"}], "usage": {...}, "finish"}`,
        `{"failure": {"status", "message", "retry_after", "retry"}}` or `{"malformed": "not-json"}`.

        Raises:
            ScriptError: If it is no such list; names the turn and the key.
        """
        try:
            turns = json.loads(text)
        except json.JSONDecodeError as error:
            raise ScriptError(f"the script is not JSON: {error}") from error
        if not isinstance(turns, list):
            raise ScriptError(f"the script must be a JSON list of turns, not {type(turns).__name__}")
        return cls(*(_decode(turn, f"turn {number}") for number, turn in enumerate(cast("list[Any]", turns))))

    @classmethod
    def from_file(cls, path: str | Path) -> Script:
        """Read a JSON script from a file; `OSError` and `ScriptError` come through."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))

    def play(self) -> Player:
        """A new player at the first turn."""
        return Player(self)


class Player:
    """One position in a script; safe to use from several threads.

    Attributes:
        views: The requests answered so far, also those the script had no turn for.
        errors: What callable turns raised, in order.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.views: list[RequestView] = []
        self.errors: list[Exception] = []
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """How many turns have not been played."""
        return max(0, len(self.script.turns) - len(self.views))

    def answer(self, view: RequestView) -> Answer:
        """The next turn, every call of it with an id.

        Raises:
            ScriptExhausted: If no turn is left.
            Exception: Whatever a callable turn raises; also kept in `errors`.
        """
        with self._lock:
            index = len(self.views)
            view = replace(view, index=index)
            self.views.append(view)
        step = self.script.turns[index] if index < len(self.script.turns) else self.script.then
        if step is None:
            raise ScriptExhausted(
                f"the script has {len(self.script.turns)} turns and request {index + 1} came: "
                f"add a turn, or give Script(..., then=...). Last user text: {view.prompt[:200]!r}"
            )
        # Outside the lock: a callable turn may block on purpose while another request is answered.
        if not callable(step):
            return _with_ids(step, index)
        try:
            return _with_ids(as_answer(step(view), f"turn {index}"), index)
        except Exception as error:
            self.errors.append(error)
            raise


def as_answer(value: Any, where: str) -> Answer:
    """Bring the short forms of a turn into `Turn`, `Failure` or `Malformed`; raises `ScriptError` for anything else."""
    if isinstance(value, Turn | Failure | Malformed):
        return value
    if isinstance(value, str):
        return Turn(text=value)
    if isinstance(value, Call):
        return Turn(calls=(value,))
    if isinstance(value, list | tuple):
        calls = tuple(cast("Sequence[Any]", value))
        if calls and all(isinstance(call, Call) for call in calls):
            return Turn(calls=calls)
    raise ScriptError(f"{where}: expected Turn, Failure, Malformed, str, Call or a list of Calls, got {value!r}")


def pieces(text: str, count: int = 4) -> list[str]:
    """Cut a text into at most `count` pieces of about equal length; an empty text has none."""
    size = max(1, -(-len(text) // count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def tokens(chars: int) -> int:
    """The stubs' estimate where a turn names no usage: four characters a token, at least one."""
    return max(1, chars // 4)


def _with_ids(answer: Answer, index: int) -> Answer:
    if isinstance(answer, Failure):
        return answer
    if isinstance(answer, Malformed):
        return replace(answer, turn=cast("Turn", _with_ids(answer.turn, index)))
    calls = (replace(call, id=call.id or f"call_{index}_{number}") for number, call in enumerate(answer.calls))
    return replace(answer, calls=tuple(calls))


def _decode(value: Any, where: str) -> Answer:
    if isinstance(value, str):
        return Turn(text=value)
    if not isinstance(value, dict):
        raise ScriptError(f"{where}: expected a string or an object, got {value!r}")
    data = cast("dict[str, Any]", value)
    if "failure" in data:
        _known(data, {"failure"}, where)
        failure = _object(data["failure"], {"status", "message", "retry_after", "retry"}, f"{where}.failure")
        return Failure(**failure)
    if "malformed" in data:
        _known(data, {"malformed"}, where)
        return Malformed(data["malformed"])
    _known(data, {"text", "calls", "usage", "finish"}, where)
    calls: list[Call] = []
    for number, item in enumerate(data.get("calls", [])):
        call = _object(item, {"name", "args", "id"}, f"{where}.calls[{number}]", needs={"name"})
        calls.append(Call(**call))
    usage = None
    if "usage" in data:
        allowed = {"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"}
        needs = {"input_tokens", "output_tokens"}
        usage = Usage(**_object(data["usage"], allowed, f"{where}.usage", needs=needs))
    finish = data.get("finish")
    if finish is not None and finish not in FINISHES:
        raise ScriptError(f"{where}.finish: {finish!r} is none of {', '.join(FINISHES)}")
    return Turn(data.get("text", ""), tuple(calls), usage, finish)


def _object(value: Any, allowed: set[str], where: str, *, needs: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ScriptError(f"{where}: expected an object, got {value!r}")
    data = cast("dict[str, Any]", value)
    _known(data, allowed, where)
    if missing := sorted((needs or set()) - set(data)):
        raise ScriptError(f"{where}: missing {', '.join(missing)}")
    return data


def _known(data: Mapping[str, Any], allowed: set[str], where: str) -> None:
    if unknown := sorted(set(data) - allowed):
        raise ScriptError(f"{where}: unknown key {', '.join(unknown)}; known are {', '.join(sorted(allowed))}")
