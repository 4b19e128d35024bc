"""The floor of peers on LangChain: its bare agent with the eight tools of by_hand.py, which it runs in threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents import create_agent  # type: ignore[import-not-found]

from benchmarks.contenders.by_hand import INSTRUCTIONS, Session
from benchmarks.contenders.langchain_contender import Calls, LangChainContender
from benchmarks.work import Step

__all__ = ["CONTENDER"]


def _build(model: Any, root: Path) -> Any:
    by_hand = Session(root)
    tools = [
        by_hand.ls,
        by_hand.read_file,
        by_hand.write_file,
        by_hand.edit_file,
        by_hand.glob,
        by_hand.grep,
        by_hand.execute,
        by_hand.write_todos,
    ]
    return create_agent(model, tools, system_prompt=INSTRUCTIONS)


def _calls(this: Step) -> Calls:
    return [
        ("write_file", {"path": this.write, "content": this.content}),
        ("read_file", {"path": this.read}),
        ("ls", {"path": this.ls}),
    ]


CONTENDER = LangChainContender(_build, _calls)
