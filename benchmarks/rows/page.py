"""The page of `deep web` in Chromium: first paint, the thinking sign, and a token on the page after the model's."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

from benchmarks.measure import Bench, Figure, Goal, scratch

__all__ = ["measure"]

ROUNDS = 9
PAINT, SIGN, TOKEN = (
    "deep web, first paint",
    "deep web, thinking sign after sending",
    "deep web, first token on the page",
)
GOALS = {PAINT: ("ms", 1000), SIGN: ("ms", 200), TOKEN: ("ms after the model's", 200)}
WORD = "begun"
CLOCK = "performance.timeOrigin + performance.now()"
# A thing counts as shown in the frame after the one that has it, when its pixels are out.
WATCH = f"""
window.shown = {{}};
const mark = (name) => {{
  if (name in shown) return;
  shown[name] = null;
  requestAnimationFrame(() => requestAnimationFrame(() => {{ shown[name] = {CLOCK}; }}));
}};
new MutationObserver(() => {{
  if (document.getElementById("sign")?.checkVisibility()) mark("sign");
  if (document.querySelector("article.assistant")?.textContent.includes("{WORD}")) mark("token");
}}).observe(document, {{ subtree: true, childList: true, characterData: true, attributes: true }});
document.addEventListener("keydown", (event) => {{
  if (event.key === "Enter") shown.sent = {CLOCK};
}}, true);
"""
FIRST_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


def measure(bench: Bench) -> list[Figure]:
    """Beside fixed goals: no floor has a page. Without Chromium there are no figures."""
    if len(bench.ours) > 1:
        return []
    if lacking := _lacking():
        print(f"page: skipped: {lacking}", file=sys.stderr)
        return []
    taken = _visits(bench.rounds(ROUNDS))
    return [
        bench.figure(name, unit, [{"ours": each[name]} for each in taken], Goal(limit), digits=0)
        for name, (unit, limit) in GOALS.items()
    ]


def _lacking() -> str:
    """Say what to install; "" if nothing lacks."""
    if find_spec("selenium") is None:
        return "pip install selenium"
    from tests.browser import CHROMIUM, DRIVER

    return "" if CHROMIUM and DRIVER else "apt-get install chromium chromium-driver"


def _visits(count: int) -> list[dict[str, float]]:
    """Open the page and send a message, again and again; the server, the browser and the clock are of one machine.

    Not in a child, which ends without cleaning up: the browser would stay.
    """
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from plugins.web.tests.served import serving
    from plugins.web.tests.tabs import Keys, Tab
    from tests.browser import browser

    wrote: queue.SimpleQueue[float] = queue.SimpleQueue()

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        wrote.put(time.time() * 1000)
        yield WORD
        yield " and ended"

    def model(model_id: str) -> FunctionModel:
        return FunctionModel(stream_function=stream)

    def visit(driver: Any, page: str) -> dict[str, float]:
        tab = Tab(driver, page)
        paint: float = tab.until(lambda: tab.js(FIRST_PAINT))
        tab.new()
        tab.js(WATCH)
        tab.write("begin")
        tab.find("#text").send_keys(Keys.ENTER)
        shown: dict[str, float] = tab.until(lambda: tab.js("return shown.sign && shown.token && shown"))
        tab.settled()
        return {PAINT: paint, SIGN: shown["sign"] - shown["sent"], TOKEN: shown["token"] - wrote.get()}

    with scratch() as root, serving(root / "server", models=model) as server, browser(root / "profile") as driver:
        visit(driver, server.page)  # writes byte code, and fills the browser's cache
        return [visit(driver, server.page) for _ in range(count)]
