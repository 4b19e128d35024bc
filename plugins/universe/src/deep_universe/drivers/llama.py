"""The dialects of Llama: a list of calls in Python, and what follows `<|python_tag|>`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from ..calls import InvalidCall, ToolCall, ToolResult
from .balanced_body import BalancedBody, Bounds, calls_of_elements
from .json_body import calls_of, dump, invalid, named_call
from .pythonic import calls_of_python, python_call
from .scanner import Body, Form, Head, partial_pattern
from .text import TextDriver, function_of, outcome_of

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["LlamaDriver"]

PYTHON_TAG: Final = "<|python_tag|>"
ENDS: Final = ("<|eom_id|>", "<|eot_id|>")
BLANKS: Final = r"[ \t\r\n]{0,8}"
OPENER: Final = Head("=[", BLANKS, "[A-Za-z0-9_]", "[A-Za-z0-9_.-]{0,128}", "=(")
FIRST: Final = (
    Head(BLANKS, "=)"),
    Head(BLANKS, "=**"),
    Head(BLANKS, "[A-Za-z_]", "[A-Za-z0-9_]{0,64}", BLANKS, "==", "[^=]"),
)
"""What follows the bracket of a call. In a link, `[f(x)](…)`, something else does."""
AFTER: Final = Head(r"[ \t\r]{0,8}", r"(?:\n|<|\Z)")
PAIRS: Final = {"]": "[", ")": "(", "}": "{"}
QUOTES: Final = ("'", '"', "'''", '"""')
OUTSIDE: Final = re.compile(r"""\"{3}|'{3}|["'()\[\]{}]""")
INSIDE: Final = {quote: re.compile(rf"\\|{quote}") for quote in QUOTES}
SEPARATOR: Final = re.compile(r"[\s;,]*+")
NEXT: Final = re.compile(r"[;\n]\s*+(?=\{)")
MARKUP: Final = re.compile(r"<(?=\||/?think)")
END: Final = re.compile("|".join(map(re.escape, ENDS)))
END_TAIL: Final = partial_pattern(ENDS)
FUNCTION: Final = Head("=<function=", "[A-Za-z0-9_.-]{0,128}", "=>", commit="=")
FUNCTION_END: Final = "</function>"
HOW: Final = """\
You can call the tools listed below. To call some, reply with nothing but a list of calls in Python syntax, with \
literal arguments only, exactly so:

[tool_name(parameter="value", other=1), other_tool()]

Do not put the list in a code fence or in backticks, and do not invent results: stop after the list, and the results \
come in the next message. If you need no tool, answer as usual.

"""


class LlamaDriver(TextDriver):
    """`[f(a=1), g(b="x")]` on lines of its own, and Python or JSON after `<|python_tag|>`.

    `{"name": …, "parameters": {…}}` and `<function=name>{…}</function>` on lines of their own, as the templates of
    Llama 3.1 and 3.2 ask for, are read too.
    Only literals are read, and nothing is evaluated. The list begins a line, and nothing follows it on its last line.
    After the tag, Python or JSON is read up to the end of the message.
    """

    name = "llama"
    families = re.compile(r"llama")
    bare: ClassVar[bool] = True

    def forms(self, tools: Sequence[ToolDefinition] = ()) -> list[Form]:
        """The list, the tag, and what the template of Llama 3.1 asks for with tools of one's own."""
        return [
            Form(OPENER, ListBody, ENDS),
            Form(PYTHON_TAG, TagBody, ENDS),
            Form(FUNCTION, FunctionBody, (FUNCTION_END, *ENDS)),
        ]

    def render(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call, and each tool as one line of JSON."""
        if not tools:
            return ""
        return HOW + "\n".join(dump(function_of(tool), MARKUP) for tool in tools)

    def encode_calls(self, calls: Sequence[ToolCall]) -> str:
        """Return all calls as one list."""
        return f"[{', '.join(python_call(call, MARKUP) for call in calls)}]"

    def encode_results(self, results: Sequence[ToolResult]) -> str:
        """Return a line for each result."""
        return "\n".join(f"tool_result: {dump(outcome_of(result), MARKUP)}" for result in results)


class ListBody(Body):
    """A list of calls in Python, up to its last bracket. A link, or a list within a sentence, is text."""

    def __init__(self, opening: str) -> None:
        super().__init__(opening)
        self._parts: list[str] = []
        self._stack = ["[", "("]
        self._started = self._is_text = self._broken = False
        self._quote = ""

    def read(self, text: str, position: int, final: bool) -> int:
        """Read up to the bracket that closes the list, and look at what follows it."""
        if not self._started:
            matches = [head.match(text, position, final=False) for head in FIRST]
            self.examined += min(80, len(text) - position) * len(FIRST)
            if "wait" in matches:
                return position
            self._started = True
            self.done = self._is_text = not any(matches)
        while not self.done:
            if self._broken:
                return self._rest_of_line(text, position)
            if not self._stack:
                after = AFTER.match(text, position, final)
                self.examined += 1
                self.done, self._is_text = after != "wait", after is None
                return position
            stop = self._in_string(text, position, final) if self._quote else self._token(text, position, final)
            self._parts.append(text[position:stop])
            if stop == position:
                break
            position = stop
        return position

    def _token(self, text: str, position: int, final: bool) -> int:
        """Read up to a bracket or the start of a string, and that too."""
        found = OUTSIDE.search(text, position)
        self.examined += (found.end() if found else len(text)) - position
        if found is None:
            return len(text)
        sign = found[0]
        if sign[0] in QUOTES:
            start = text[found.start() : found.start() + 3]
            if not final and len(start) < 3 and start == sign * len(start):
                return found.start()  # there may be three
            self._quote = sign
        elif sign in "([{":
            self._stack.append(sign)
        elif self._stack[-1] == PAIRS[sign]:
            self._stack.pop()
        else:
            self._broken = True
        return found.end()

    def _in_string(self, text: str, position: int, final: bool) -> int:
        """Read up to an escape, or to the end of the string, and that too."""
        found = INSIDE[self._quote].search(text, position)
        self.examined += (found.end() if found else len(text)) - position
        if found is None:
            tail = len(text) - len(text.rstrip(self._quote[0])) if len(self._quote) == 3 and not final else 0
            return max(position, len(text) - min(tail, 2))
        if found[0] == self._quote:
            self._quote = ""
            return found.end()
        if found.end() == len(text):
            return found.end() if final else found.start()
        return found.end() + 1

    def _rest_of_line(self, text: str, position: int) -> int:
        end = text.find("\n", position)
        stop = end if end >= 0 else len(text)
        self.examined += stop - position + 1
        self._parts.append(text[position:stop])
        self.done = end >= 0
        return stop

    def items(self) -> list[ToolCall | InvalidCall] | None:
        """The calls of the list; None if it was text after all."""
        if self._is_text:
            return None
        if self._broken:
            return [invalid(self.raw(), "the brackets of the list do not match", self._name())]
        return calls_of_python(self.raw())

    def cut_off(self) -> list[ToolCall | InvalidCall]:
        """An invalid call: a bracket is open."""
        if self._broken:
            return [invalid(self.raw(), "the brackets of the list do not match", self._name())]
        problem = "the reply was cut off in the list of calls: write it again, shorter if it is long"
        return [invalid(self.raw(), problem, self._name())]

    def _name(self) -> str:
        return self.opening[1:-1].strip()

    def raw(self) -> str:
        """The list as the model wrote it."""
        return self.opening + "".join(self._parts)


class TagBody(Body):
    """Everything after `<|python_tag|>`, up to the end of the message."""

    def __init__(self, opening: str) -> None:
        super().__init__(opening)
        self._parts: list[str] = []

    def read(self, text: str, position: int, final: bool) -> int:
        """Read up to a token that ends the message."""
        found = END.search(text, position)
        end = found.start() if found else len(text)
        self.examined += (found.end() if found else end) - position
        if not final and not found:
            tail = END_TAIL.search(text, max(position, end - len(ENDS[0])))
            end = tail.start() if tail else end
        self._parts.append(text[position:end])
        self.done = found is not None
        return end

    def items(self) -> list[ToolCall | InvalidCall]:
        """The calls; one whose brackets are not closed is invalid."""
        written = "".join(self._parts).strip()
        if written.startswith("{"):
            return _json_calls(written)
        if not written.endswith(("]", ")")):
            return [invalid(self.raw(), "the reply was cut off in the call: write it again, shorter if it is long")]
        if re.match(r"\[\s*\{", written):
            return calls_of_elements(written)
        return calls_of_python(written)

    cut_off = items

    def raw(self) -> str:
        """The tag, and what follows it."""
        return self.opening + "".join(self._parts)


def _function_call(head: str, written: str) -> list[ToolCall | InvalidCall]:
    name = head.partition("=")[2].partition(">")[0]
    return [named_call(name, written, head + written) if name else invalid(head + written, "the call has no name", "")]


FUNCTION_BOUNDS: Final = Bounds([Head(BLANKS)], (FUNCTION_END, *ENDS), _function_call)


class FunctionBody(BalancedBody):
    """JSON in `<function=…>`. Qwen3-Coder writes the same tag around something else."""

    def __init__(self, opening: str) -> None:
        super().__init__(FUNCTION_BOUNDS, opening)
        self.native = False


def _json_calls(written: str) -> list[ToolCall | InvalidCall]:
    """Read JSON objects with semicolons between them."""
    decoder = json.JSONDecoder(strict=False)
    calls: list[ToolCall | InvalidCall] = []
    position = 0
    while position < len(written):
        try:
            end = decoder.raw_decode(written, position)[1]
            calls += calls_of(written[position:end])
        except (ValueError, RecursionError):
            following = NEXT.search(written, position)
            end = following.start() if following else len(written)
            calls += calls_of(written[position:end])
        separator = SEPARATOR.match(written, end)
        position = separator.end() if separator else end
    return calls
