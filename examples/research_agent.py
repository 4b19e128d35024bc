"""A research agent reads the web with a subagent, and keeps what it found for the next conversation.

python examples/research_agent.py
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from deep_memories import MemoryOptions
from deep_subagents import SubAgentConfig, SubagentsOptions
from deep_web_tools import WebToolsOptions
from scripted import model

from deep_core import create_deep_agent, create_default_deps

PAGES = {"/tides": "High tide is at <b>14:20</b>.", "/winds": "The wind is <i>weak</i>."}


class Harbor(BaseHTTPRequestHandler):
    """A site on this machine: the example runs offline."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(f"<main>{PAGES[self.path]}</main>".encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        print("the site was asked for", self.path)


def main(site: str) -> None:
    """Research in one conversation; a second one remembers."""
    reader = SubAgentConfig(
        name="reader",
        description="Reads a web page and reports.",
        instructions="Fetch the page that you are told, and report in one sentence.",
        tools="network",  # what it reads cannot make it write or remember anything
        model=model(("fetch", {"url": f"{site}/winds"}), "Hardly any wind."),
    )
    plugins = [
        WebToolsOptions(require_fetch_approval=False, hosts=["127.0.0.1"], allow_private=True),
        MemoryOptions(enabled=True, project="harbor"),
        SubagentsOptions(types=(reader,)),
    ]
    first = model(
        ("fetch", {"url": f"{site}/tides"}),
        ("task", {"description": f"How is the wind? {site}/winds", "subagent_type": "reader"}),
        ("remember", {"topic": "Sailing", "note": "High tide at 14:20, hardly any wind."}),
        "Leave at 14:20, by motor.",
    )
    second = model(("recall", {"query": "tide"}), "At 14:20, by motor.")
    for question, answers in (f"When do we leave? {site}", first), ("When was it again?", second):
        agent = create_deep_agent(answers, plugins=plugins, backend="memory", interrupt_on=False)
        result = agent.run_sync(question, deps=create_default_deps())
        for part in (part for message in result.all_messages() for part in message.parts):
            if part.part_kind == "tool-return":
                print(f"{part.tool_name}: {part.content}")
        print(result.output)


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", 0), Harbor) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        main(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
