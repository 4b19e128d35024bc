"""Broken, mixed and hostile responses, made of recorded ones."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
HIDDEN = "secret_wipe"
"""A tool that is registered and not offered."""


def recorded() -> dict[str, list[dict[str, Any]]]:
    """Driver -> its recorded responses: `about`, `response`, `calls`, `invalid`."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDED.glob("*.json"))}


def tool_names(every: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """The tools that recorded responses call."""
    return sorted({call["name"] for entries in every.values() for entry in entries for call in entry["calls"]})


JUNK: list[Any] = [None, True, 0, -1, 1e999, "", "x", "{", "null", [], {}, [[]], {"": ""}, [None], {"a": [1]}, "\ud800"]
MARKUP = [
    *("<tool_call>", "</tool_call>", "<think>", "</think>", "<function=", "<parameter=x>", "</function>", "<arg_key>"),
    *("<|python_tag|>", "[TOOL_CALLS]", "[", "]", "{", "}", '"', "```", "```json\n", "`", "\n", "Action: ", "\x00"),
    *(
        "Action Input: ",
        "<tool>",
        "<name>",
        "</",
        ">",
        "&amp;",
        "<![CDATA[",
        "<!ENTITY x 'y'>",
        "<｜tool▁calls▁begin｜>",
    ),
    *(HIDDEN, f'{{"name": "{HIDDEN}", "arguments": {{}}}}', f"<function={HIDDEN}>", f"{HIDDEN}()"),
]


class Fuzzer:
    """Makes responses, the same for the same seed."""

    def __init__(self, seed: int, names: list[str], responses: list[Any]) -> None:
        self.random = random.Random(seed)
        self.names, self.responses = names, responses

    def response(self) -> Any:
        """The next one: a recorded response that was damaged, junk, or an object that behaves badly."""
        kind: Callable[[], Any] = self.random.choices(
            [self._damaged, self._renamed, self._text, self._data, self._object], [5, 3, 2, 2, 1]
        )[0]
        return kind()

    def _damaged(self) -> Any:
        response = copy.deepcopy(self.random.choice(self.responses))
        for _ in range(self.random.randint(1, 4)):
            response = self._damage(response)
        return response

    def _renamed(self) -> Any:
        """A good response that calls the hidden tool, or one that does not exist."""
        other = self.random.choice([HIDDEN, "no_such_tool", "", "a b"])
        return self._rename(self.random.choice(self.responses), other)

    def _rename(self, value: Any, other: str) -> Any:
        if isinstance(value, dict):
            return {key: self._rename(item, other) for key, item in value.items()}
        if isinstance(value, list):
            return [self._rename(item, other) for item in value]
        return re.sub(rf"\b({'|'.join(self.names)})\b", other, value) if isinstance(value, str) else value

    def _damage(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._damaged_text(value)
        if isinstance(value, dict) and value:
            key = self.random.choice(list(value))
            if self.random.random() < 0.2:
                del value[key]
            elif self.random.random() < 0.2:
                value[key] = copy.deepcopy(self.random.choice(JUNK))
            else:
                value[key] = self._damage(value[key])
            return value
        if isinstance(value, list) and value:
            at = self.random.randrange(len(value))
            value[at] = self._damage(value[at])
            if self.random.random() < 0.3:
                value.insert(at, copy.deepcopy(self.random.choice(value)))
            return value
        return copy.deepcopy(self.random.choice(JUNK))  # a list of it may be damaged in turn

    def _damaged_text(self, text: str) -> str:
        at, end = sorted(self.random.randint(0, len(text)) for _ in range(2))
        piece = self.random.choice([*MARKUP, *self.names, text[at:end]])
        return self.random.choice([text[:at] + piece + text[end:], text[:at], text[at:], text[:at] + piece + text[at:]])

    def _text(self) -> str:
        return "".join(self.random.choices([*MARKUP, *self.names, "a", " "], k=self.random.randint(0, 30)))

    def _data(self, depth: int = 4) -> Any:
        keys = ["choices", "message", "tool_calls", "content", "type", "tool_use", "output", "candidates", "parts"]
        keys += [
            "functionCall",
            "function_call",
            "name",
            "arguments",
            "args",
            "input",
            "params",
            "method",
            "id",
            "role",
        ]
        if depth == 0 or self.random.random() < 0.2:
            return self.random.choice([*JUNK, HIDDEN, *self.names[:3], "tools/call", "tool_use", "function_call"])
        if self.random.random() < 0.4:
            return [self._data(depth - 1) for _ in range(self.random.randint(0, 3))]
        return {self.random.choice(keys): self._data(depth - 1) for _ in range(self.random.randint(0, 5))}

    def _object(self) -> Any:
        kind = self.random.choice([Dumping, Raising, Inventing])
        return kind(self.random.choice([self.random.choice(self.responses), *JUNK]))


class Dumping:
    """An SDK's object, good or bad."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def model_dump(self, **options: Any) -> Any:
        return self.data


class Raising(Dumping):
    """Raises wherever it is read."""

    def model_dump(self, **options: Any) -> Any:
        raise RuntimeError("no")

    to_dict = __iter__ = __len__ = __str__ = __repr__ = model_dump  # type: ignore[assignment]


class Inventing(Dumping):
    """Has every attribute, as a mock has."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self.data
