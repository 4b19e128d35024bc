"""Calls written as JSON between markers: where they end, what they say, and how to write them."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from ..calls import BareInput, InvalidCall, ToolCall
from .repairing import repair
from .scanner import RAW_LIMIT, Body, Head, partial_pattern

__all__ = [
    "JsonBody",
    "JsonPatterns",
    "JsonText",
    "Markers",
    "calls_of",
    "dump",
    "invalid",
    "json_value",
    "load",
    "load_near",
    "named_call",
    "readable_name",
]

NAME: Final = re.compile(r'"name"\s*:\s*"([A-Za-z0-9_.\-]{1,64})"')
OWN: Final = re.compile(r"\s*[\[{]")
TRAILING: Final = 8
"""Closing brackets that are compared with the open ones."""
HUGE: Final = re.compile(r"\d[eE]\+?\d{3}")
"""In a number that Python reads as an infinity, if it is too big."""
HALF_PAIR: Final = re.compile(r"\\u[dD][89a-fA-F]")
NAMES: Final = ("name", "function", "tool", "tool_name", "function_name", "action")
ARGUMENTS: Final = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input")
BESIDE: Final = frozenset(
    {*NAMES, *ARGUMENTS, "id", "call_id", "tool_call_id", "type", "index", "thought", "reasoning"}
)
"""What may stand in a call. Another key may be an argument that stands in the wrong place: it is not dropped."""
FENCED: Final = re.compile(r"```[A-Za-z_]*\s*\n(.*)\n\s*```", re.DOTALL)
"""A code fence inside the markers of a call."""
WRAPPERS: Final = ("function", "tool_call", "function_call")


def load(text: str) -> object:
    """Read JSON as a model writes it: line breaks may stand in strings.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or holds NaN, an infinity or half of a surrogate pair.
    """

    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not a JSON value")

    try:
        value = json.loads(text, strict=False, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if HUGE.search(text):
        json.dumps(value, allow_nan=False)
    if HALF_PAIR.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def json_value(value: object) -> Any:
    """Return what a tool returned as JSON data; what JSON cannot say becomes text."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str, inf_nan_mode="strings")


def dump(value: object, escape: re.Pattern[str] | None = None) -> str:
    """Write JSON on one line. What the pattern finds in it is markup: its first character is written as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    if escape is None:
        return text
    return escape.sub(lambda found: f"\\u{ord(found[0][0]):04x}{found[0][1:]}", text)


def readable_name(raw: str) -> str:
    """The name in a call that is not JSON, or an empty string."""
    found = NAME.search(raw, 0, RAW_LIMIT)
    return found[1] if found else ""


def invalid(raw: str, problem: str, name: str | None = None) -> InvalidCall:
    """Create an invalid call from what the model wrote."""
    return InvalidCall("", readable_name(raw) if name is None else name, raw[:RAW_LIMIT], problem)


def _problem(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"the call is not valid JSON: {error.msg} at line {error.lineno} column {error.colno}"
    return f"the call is not valid JSON: {error}"


def load_near(text: str) -> object:
    """Read JSON as `load` does, and with slips that leave one meaning.

    Raises:
        ValueError: it is not JSON, with the problem that `load` has.
    """
    try:
        return load(text)
    except ValueError:
        try:
            fenced = FENCED.fullmatch(text.strip())
            # Written again and read strictly: what `load` refuses stays refused.
            return load(json.dumps(repair(fenced[1] if fenced else text), ensure_ascii=False))
        except (ValueError, RecursionError):
            pass
        raise


def calls_of(raw: str) -> list[ToolCall | InvalidCall]:
    """Read an object, or a list of objects, with `name` and `arguments`, or as `NAMES` and `ARGUMENTS` have them."""
    try:
        value = load_near(raw)
    except ValueError as error:
        return [invalid(raw, _problem(error))]
    if isinstance(value, dict) and isinstance(several := cast("dict[str, object]", value).get("tool_calls"), list):
        value = cast("list[object]", several)
    values: list[object] = cast("list[object]", value) if isinstance(value, list) and value else [value]
    return [_call_of(each, raw) for each in values]


def _call_of(value: object, raw: str) -> ToolCall | InvalidCall:
    if not isinstance(value, dict):
        return invalid(raw, 'the call is not a JSON object with "name" and "arguments"')
    call = _unwrapped(cast("dict[str, object]", value))
    named = [key for key in NAMES if isinstance(call.get(key), str) and call[key]]
    if not named or ("name" not in named and len(named) > 1):
        return invalid(raw, 'the call has no "name": write {"name": …, "arguments": {…}}', "")
    name, id = str(call[named[0]]), call.get("id")
    given = [key for key in ARGUMENTS if key in call]
    beside = sorted(call.keys() - BESIDE)
    if (not given and beside) or (given[:1] not in (["arguments"], ["parameters"]) and len(given) > 1):
        return invalid(raw, f'write the arguments of {name} as one object, in "arguments"', name)
    arguments = call[given[0]] if given else None
    return _called(name, arguments, raw, id if isinstance(id, str) else "")


def _unwrapped(call: dict[str, object]) -> dict[str, object]:
    """Return the call in `{"type": "function", "function": {…}}`, the form of APIs."""
    for key in WRAPPERS:
        inner = call.get(key)
        if isinstance(inner, dict) and "name" not in call:
            return {"id": call.get("id"), **cast("dict[str, object]", inner)}
    return call


def _called(name: str, arguments: object, raw: str, id: str) -> ToolCall | InvalidCall:
    if isinstance(arguments, str):  # some models write the arguments as a string of JSON
        written = arguments
        try:
            arguments = load_near(written)
        except ValueError as error:
            return _bare(raw, f'"arguments" of {name}: {_problem(error)}', name, written)
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            return _bare(raw, f'"arguments" of {name} is not a JSON object', name, written)
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return BareInput("", name, raw[:RAW_LIMIT], f'"arguments" of {name} is not a JSON object', value=arguments)
    return ToolCall(id, name, cast("dict[str, Any]", arguments))


def _bare(raw: str, problem: str, name: str, written: str) -> InvalidCall:
    """Return a call whose arguments are one text, or are JSON that is broken: that is no text."""
    if written.lstrip()[:1] in ("{", "["):
        return invalid(raw, problem, name)
    return BareInput("", name, raw[:RAW_LIMIT], problem, value=written, is_text=True)


def named_call(name: str, written: str, raw: str, id: str = "") -> ToolCall | InvalidCall:
    """Read the arguments of a call whose name stands outside the JSON."""
    try:
        arguments = load_near(written)
    except ValueError as error:
        return _bare(raw, f"the arguments of {name} are not valid JSON: {error}", name, written)
    if not isinstance(arguments, dict):
        return _bare(raw, f"the arguments of {name} are not a JSON object", name, written)
    return ToolCall(id, name, cast("dict[str, Any]", arguments))


class JsonPatterns:
    """What ends plain text in JSON, outside and inside strings, and after JSON that is broken.

    Arguments:
        outside: markers that matter outside strings.
        inside: markers that matter inside strings.
        broken: markers that matter once the text is surely not JSON.
        plain: characters, escaped for a pattern, that may stand outside strings and do not matter.
    """

    def __init__(
        self,
        outside: Sequence[str],
        inside: Sequence[str],
        broken: Sequence[str],
        *,
        plain: str = r"{}\[\]",
    ) -> None:
        every = sorted({*outside, *inside, *broken}, key=len, reverse=True)

        def either(markers: Sequence[str], also: str = "") -> re.Pattern[str]:
            ordered = [re.escape(marker) for marker in every if marker in markers]
            return re.compile("|".join([*ordered, also] if also else ordered))

        self.outside = either(outside, rf"[^\s,:0-9+\-.eEtrufalsn{plain}]")
        self.inside = either(inside, r'["\\]')
        self.broken = either(broken)
        self.tail = partial_pattern(every)
        self.longest = len(every[0])


class JsonText(Body):
    """Reads JSON piece by piece, far enough to tell strings from the rest and to notice what cannot be JSON."""

    def __init__(self, patterns: JsonPatterns, opening: str, heads: Sequence[Head] = ()) -> None:
        super().__init__(opening)
        self._patterns = patterns
        self._heads = heads
        self._head: str | None = None if heads else ""
        self._parts: list[str] = []
        self._length = 0
        self._blank = True
        self._last = ""
        """The last character outside strings that is not blank; a quote after a string."""
        self._in_string = self._broken = False

    @abstractmethod
    def _marker(self, what: str, inside: bool) -> int:
        """Handle a marker, a bracket or what cannot be JSON; return how far to go."""

    @abstractmethod
    def _fail(self) -> None:
        """The text is surely not JSON."""

    def read(self, text: str, position: int, final: bool) -> int:
        """Read what stands before the JSON, then up to where the call ends."""
        if self._head is None:
            matches = [head.match(text, position, final) for head in self._heads]
            if not final and ("wait" in matches or position == len(text)):
                self.examined += len(text) - position
                return position
            match = next((match for match in matches if match is not None and match != "wait"), None)
            self._head = match[0] if match else ""
            self.examined += len(self._head) + 1
            position += len(self._head)
        while not self.done:
            found = self._pattern().search(text, position)
            end = found.end() if found else len(text)
            self.examined += end - position
            if not final and end > len(text) - self._patterns.longest:
                start = max(position, len(text) - self._patterns.longest)
                self.examined += len(text) - start
                tail = self._patterns.tail.search(text, start)
                if tail and (not found or tail.start() <= found.start()):
                    self._take(text[position : tail.start()])
                    return tail.start()
            stop = found.start() if found else len(text)
            intact = self._take(text[position:stop])
            position = stop
            if self.done or not found:
                break
            if intact:
                step = self._event(found[0], text, position, final)
                if step is None:
                    break
                position += step
        return position

    def _pattern(self) -> re.Pattern[str]:
        if self._broken:
            return self._patterns.broken
        return self._patterns.inside if self._in_string else self._patterns.outside

    def _keep(self, part: str) -> int:
        self._parts.append(part)
        self._length += len(part)
        self._blank = self._blank and not part.strip()
        return len(part)

    def _take(self, part: str) -> bool:
        """Keep plain text; return whether it may still be JSON if it could be before."""
        self._keep(part)
        if not self._in_string and not self._broken and (stripped := part.strip()):
            if self._last == '"' and stripped[0] not in ",:}]":
                self._fail()
                return False
            self._last = stripped[-1]
        return True

    def _event(self, what: str, text: str, position: int, final: bool) -> int | None:
        """Handle what matters; return how far to go, None to wait for more."""
        inside = self._in_string and not self._broken
        if inside and what == "\\":
            if position + 2 > len(text) and not final:
                return None
            return self._keep(text[position : position + 2])
        if what != '"' or self._broken:
            return self._marker(what, inside)
        if inside:
            self._in_string, self._last = False, what
            return self._keep(what)
        if self._last in ("", "{", "[", ",", ":"):
            self._in_string = True
            return self._keep(what)
        self._fail()
        return 0

    def _seems_closed(self, brackets: int) -> bool:
        """Whether the text so far ends with so many closing brackets: a string that was never closed swallowed them."""
        wanted = min(brackets, TRAILING)
        for part in reversed(self._parts):
            for character in reversed(part.rstrip()):
                self.examined += 1
                if wanted == 0:
                    return True
                if character not in "}]":
                    if character.isspace():
                        continue
                    return False
                wanted -= 1
        return wanted == 0

    def _written(self) -> str:
        return "".join(self._parts)


class Markers:
    """What closes a call, and what opens the next one.

    Arguments:
        opener: what opens the next call: a call that reaches it was never closed.
        closer: what closes a call, or all that does, as an indented fence: the instructions have the first.
        parse: reads the head and the text between the markers.
        own: matches the start of a body of this dialect.
        heads: what may stand before the JSON, the first that matches.
        plain: a character that may stand around the JSON.
        quoted: how an opener looks where it can only be quoted.
    """

    def __init__(
        self,
        opener: str,
        closer: str | Sequence[str],
        parse: Callable[[str, str], list[ToolCall | InvalidCall]] = lambda head, written: calls_of(written),
        own: re.Pattern[str] = OWN,
        heads: Sequence[Head] = (),
        plain: str = "",
        quoted: str = "",
    ) -> None:
        self.openers = {opener, quoted} - {""}
        self.closers = [closer] if isinstance(closer, str) else closer
        self.closer, self.opener, self.parse, self.own, self.heads = self.closers[0], opener, parse, own, heads
        every = (*self.closers, *self.openers)
        self.patterns = JsonPatterns(every, every, every, plain=rf"{{}}\[\]{plain}")


class JsonBody(JsonText):
    """JSON up to a closing marker. A marker inside a JSON string does not close.

    If the JSON is broken, a string that was never closed may hide the marker. So the first marker in a string that
    seems to be the call's is remembered: as soon as the text is surely not JSON, the call ended there, and what follows
    is read again. An opener in a string, or in what is broken, may be quoted: it starts no call, and its closer closes
    none.
    """

    def __init__(self, markers: Markers, opening: str) -> None:
        super().__init__(markers.patterns, opening, markers.heads)
        self._markers = markers
        self._candidate: int | None = None
        self._candidate_closer = ""
        self._quoted_calls = 0
        self._open = 0
        """Brackets that are open."""
        self._ended_by = ""

    def _take(self, part: str) -> bool:
        if not self._in_string and not self._broken:
            self._open += part.count("{") + part.count("[") - part.count("}") - part.count("]")
        return super()._take(part)

    def _marker(self, what: str, inside: bool) -> int:
        if what in self._markers.openers:
            return self._next_opener(what, inside)
        if what not in self._markers.closers:
            self._fail()
            return 0
        if self._quoted_calls and (inside or self._broken):
            self._quoted_calls -= 1
        elif not inside:
            self.done, self._ended_by = True, what
            return len(what)
        elif self._candidate is None and self._seems_closed(self._open):
            self._candidate, self._candidate_closer = self._length, what
        return self._keep(what)

    def _next_opener(self, opener: str, inside: bool) -> int:
        if self._blank:
            self._parts, self._length = [], 0  # the model stuttered: the call begins here
            return len(opener)
        if not inside and not self._broken and self._open > 0:
            self._broken = True
        if inside or self._broken:
            self._quoted_calls += 1
            return self._keep(opener)
        self.done, self._ended_by = True, self._markers.opener
        return 0

    def _fail(self) -> None:
        if self._candidate is None:
            self._broken = True
            return
        text = self._written()
        self._parts = [text[: self._candidate]]
        self.back = text[self._candidate + len(self._candidate_closer) :]
        self.done, self._ended_by = True, self._candidate_closer

    def items(self) -> list[ToolCall | InvalidCall]:
        """The calls between the markers."""
        written = self._written()
        self._recognize(written)
        if self._ended_by == self._markers.opener:
            return [invalid(self.opening + written[:RAW_LIMIT], f"the call is not closed with {self._markers.closer}")]
        return self._markers.parse(self._head or "", written.strip())

    def cut_off(self) -> list[ToolCall | InvalidCall]:
        """An invalid call, even if the JSON is complete."""
        written = self._written()
        self._recognize(written)
        problem = f"the reply was cut off before {self._markers.closer}: write the call again, shorter if it is long"
        return [invalid(self.opening + written[:RAW_LIMIT], problem)]

    def _recognize(self, written: str) -> None:
        self.native = not written[:RAW_LIMIT].strip() or self._markers.own.match(written) is not None

    def raw(self) -> str:
        """The markup as the model wrote it."""
        return (
            self.opening
            + (self._head or "")
            + self._written()
            + (self._ended_by if self._ended_by in self._markers.closers else "")
        )
