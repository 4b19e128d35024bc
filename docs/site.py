"""A hook of mkdocs: decisions come last in the search."""

from __future__ import annotations

from typing import Any


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Called for each page; decisions explain why, and a reader who searches asks how."""
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"boost": 0.1}
    return markdown
