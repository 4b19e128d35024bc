"""Histories to cut, and a model that writes summaries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel


class Writer(FunctionModel):
    """Writes summaries; `prompts` are what it was asked."""

    def __init__(self, answer: str | Callable[[str], Any] = "What happened, in short.") -> None:
        self.prompts: list[str] = []
        self._answer = answer
        super().__init__(self._write, model_name="writer")

    async def _write(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = str(messages[0].parts[0].content)
        self.prompts.append(prompt)
        answer = self._answer if isinstance(self._answer, str) else self._answer(prompt)
        if hasattr(answer, "__await__"):
            answer = await answer
        return answer if isinstance(answer, ModelResponse) else ModelResponse(parts=[TextPart(answer)])


def talk(turns: int, chars: int = 400) -> list[ModelMessage]:
    """A plain conversation that ends with a prompt."""
    out: list[ModelMessage] = []
    for number in range(turns):
        out.append(ModelRequest(parts=[UserPromptPart(f"question {number} " + "q" * chars)]))
        out.append(ModelResponse(parts=[TextPart(f"answer {number} " + "a" * chars)]))
    return [*out, ModelRequest(parts=[UserPromptPart("the last question")])]


TEXTS = st.builds(
    lambda text, times: text * times,
    st.text(alphabet="abc {}<>/\n", min_size=1, max_size=8),
    st.sampled_from([1, 5, 40]),  # long texts of few draws
)


def live(text: str) -> UserPromptPart:
    """A live section's text as the kernel puts it into a conversation."""
    mark = {"deep_live": {"section": "todo.state", "revision": "0a1b2c3d"}}
    return UserPromptPart([TextContent(f'<context id="todo.state">\n{text}\n</context>', metadata=mark)])


IMAGE = BinaryContent(b"\x89PNG", media_type="image/png")
PROMPTS = st.one_of(
    TEXTS.map(UserPromptPart),
    TEXTS.map(lambda text: UserPromptPart([text, IMAGE, text])),
    TEXTS.map(lambda text: UserPromptPart([ImageUrl("https://example.org/a.png"), text])),
    TEXTS.map(lambda text: live(text.strip() or "x")),
)


def answer_part(kind: str, name: str, call_id: str, text: str) -> Any:
    if kind == "legacy":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return RetryPromptPart(text, tool_name=name, tool_call_id=call_id)
    if kind == "structured":
        return ToolReturnPart(name, {"text": text, "n": [1, 2]}, call_id)
    return ToolReturnPart(name, text, call_id, outcome=kind)  # type: ignore[arg-type]


@st.composite
def histories(draw: st.DrawFn, *, waiting_calls: bool = True) -> list[ModelMessage]:
    """A valid history: parallel calls, answers over several requests, retries, reused ids, thinking, pending calls."""
    out: list[ModelMessage] = []
    for _ in range(draw(st.integers(1, 6))):
        out.append(ModelRequest(parts=draw(st.lists(PROMPTS, min_size=1, max_size=2))))
        for _ in range(draw(st.integers(0, 5))):
            parts: list[Any] = [ThinkingPart(draw(TEXTS))] if draw(st.booleans()) else []
            if draw(st.booleans()):
                parts.append(TextPart(draw(TEXTS)))
            ids = draw(st.lists(st.sampled_from("vwxyz"), min_size=1, max_size=3, unique=True))
            out.append(ModelResponse(parts=[*parts, *(ToolCallPart("t", {"a": draw(TEXTS)}, i) for i in ids)]))
            waiting = list(draw(st.permutations(ids)))
            while waiting:
                now = [waiting.pop() for _ in range(draw(st.integers(1, len(waiting))))]
                kinds = st.sampled_from(["success", "failed", "denied", "retried", "legacy", "structured"])
                answers = [answer_part(draw(kinds), "t", call_id, draw(TEXTS)) for call_id in now]
                extra = draw(st.lists(PROMPTS, max_size=1))
                out.append(ModelRequest(parts=[*answers, *extra]))
        out.append(ModelResponse(parts=[TextPart(draw(TEXTS))]))
    end = draw(st.sampled_from(["prompt", "prompt", "pending", "partly"])) if waiting_calls else "prompt"
    if end == "prompt":
        return [*out, ModelRequest(parts=[UserPromptPart(draw(TEXTS))])]
    out.append(ModelRequest(parts=[UserPromptPart(draw(TEXTS))]))
    out.append(ModelResponse(parts=[ToolCallPart("t", {"a": "1"}, "p"), ToolCallPart("ask", {"a": "2"}, "q")]))
    return out if end == "pending" else [*out, ModelRequest(parts=[ToolReturnPart("t", draw(TEXTS), "p")])]


def orphans(messages: Sequence[ModelMessage]) -> tuple[list[str], list[str]]:
    """(answers without a call before them, calls without an answer), as providers check it."""
    called: list[str] = []
    lost: list[str] = []
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-call":
                called.append(part.tool_call_id)
            elif part.part_kind in ("tool-return", "retry-prompt"):
                if part.tool_call_id in called:
                    called.remove(part.tool_call_id)
                else:
                    lost.append(part.tool_call_id)
    return lost, called
