"""The text dialects under test, and ways to feed a scanner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deep_universe.calls import InvalidCall, ToolCall
from deep_universe.drivers.scanner import Item, Scanner
from deep_universe.drivers.text import TextDriver
from hypothesis import strategies as st

RECORDED = Path(__file__).parent / "recorded"

TAGS = [f"{slash}{tag}>" for tag in ("tool_call", "tool_response", "tools", "think") for slash in ("<", "</")]
SIGNS = [*"`\"'\\{}[](),:<>&é😀\n\x00\u2028", "``", "```", "~~~", "</", "<t", "]]>", "&lt;", r"\u003c"]
OWN = ["<function=f>", "</function>", "<parameter=p>", "</parameter>", "<arg_key>", "</arg_key>", "</arg_value>"]
OWN += [
    "[TOOL_CALLS]",
    "[ARGS]",
    "Action: f",
    "Action Input: ",
    "Observation:",
    "```tool_call",
    "<|python_tag|>",
    "[f(",
]
OWN += ["<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<function_calls>", '<invoke name="f">', "</invoke>", "f()", ")]"]
MARKUP = [*TAGS, *OWN, *SIGNS, "\n\n", "> ", "    ", "\r\n"]
"""Pieces that mean something to a dialect: hostile in arguments, and everywhere in replies."""

names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,20}", fullmatch=True)
nasty = st.lists(st.one_of(st.sampled_from(MARKUP), st.text(max_size=8)), max_size=8).map("".join)
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        nasty,
        st.sampled_from(["1", "true", "null", "1.0", " 1 ", "{}", "[]", '"x"', "", " ", "\n", "02134", "None", "NaN"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(nasty, inner, max_size=3),
    max_leaves=6,
)
parameters = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True)
calls = st.lists(
    st.builds(ToolCall, st.just(""), names, st.dictionaries(parameters | nasty, values, max_size=4)),
    min_size=1,
    max_size=4,
)


def recorded(driver: str) -> list[dict[str, Any]]:
    """The recorded replies of a driver."""
    return json.loads((RECORDED / f"{driver}.json").read_text(encoding="utf-8"))


def pieces(text: str, cuts: Iterable[int]) -> Iterator[str]:
    """The text, cut at these positions."""
    start = 0
    for cut in sorted(cuts):
        yield text[start:cut]
        start = cut
    yield text[start:]


def read(scanner: Scanner, chunks: Iterable[str]) -> list[Item]:
    """Everything that a scanner finds in these chunks; strings that follow each other are joined."""
    items: list[Item] = []
    for chunk in chunks:
        items += scanner.feed(chunk)
    items += scanner.finish()
    joined: list[Item] = []
    for item in items:
        if isinstance(item, str) and joined and isinstance(joined[-1], str):
            joined[-1] += item
        else:
            joined.append(item)
    return joined


def shown(driver: TextDriver, text: str) -> str:
    """The text that a user sees."""
    return "".join(item for item in read(driver.scanner(), [text]) if isinstance(item, str))


def outcome(found: Iterable[ToolCall | InvalidCall]) -> dict[str, Any]:
    """Calls as a recorded file writes them."""
    found = list(found)
    return {
        "calls": [
            {"name": call.name, "arguments": dict(call.arguments)} for call in found if isinstance(call, ToolCall)
        ],
        "invalid": sum(isinstance(call, InvalidCall) for call in found),
    }


@dataclass(frozen=True)
class Dialect:
    """What the tests must know of a dialect.

    Attributes:
        markers: its markup for calls: none of it is ever shown.
        result_markers: its markup around results.
        serves: names of models of its family.
        empty: what it renders without tools.
    """

    markers: tuple[str, ...]
    result_markers: tuple[str, ...]
    serves: tuple[str, ...] = ()
    empty: str = ""


DIALECTS = {
    "hermes": Dialect(
        ("<tool_call>", "</tool_call>"),
        ("<tool_response>", "</tool_response>"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "qwen2.5:7b", "Qwen/Qwen3-32B", "qwq"),
    ),
    "qwen-coder": Dialect(
        ("<tool_call>", "</tool_call>", "<function=", "</function>", "<parameter=", "</parameter>"),
        ("<tool_response>", "</tool_response>"),
        ("qwen3-coder:30b", "Qwen/Qwen3-Coder-480B-A35B-Instruct", "qwen2.5-coder"),
    ),
    "glm": Dialect(
        ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        ("<tool_response>", "</tool_response>"),
        ("glm-4.5", "zai-org/GLM-4.6", "chatglm3"),
    ),
    "llama": Dialect(("<|python_tag|>", "<|eot_id|>", "<|eom_id|>"), (), ("llama3.2", "meta-llama/Llama-4-Scout")),
    "mistral": Dialect(
        ("[TOOL_CALLS]", "[ARGS]"), ("[TOOL_RESULTS]", "[/TOOL_RESULTS]"), ("mistral-nemo", "magistral-small")
    ),
    "deepseek": Dialect(
        ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜DSML｜"),
        ("<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
        ("deepseek-r1:8b", "deepseek-ai/DeepSeek-V3.1"),
    ),
    "react": Dialect(("Action Input:", "Final Answer:"), ("\nObservation:",)),
    "markdown": Dialect(("```tool_call",), ("```tool_result",)),
    "xml": Dialect(
        ("<function_calls>", "</function_calls>", "<invoke ", "</invoke>", "<parameter ", "</parameter>"),
        ("<function_results>", "<result tool=", "</result>", "<error tool="),
        empty="<tools/>",
    ),
}
