"""A program: HTML on stdin, its title and Markdown as JSON on stdout. `markdown.py` runs it, limited.

It imports nothing of this package, because it runs isolated, by its path.
"""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from typing import Any, cast
from urllib.parse import urljoin

__all__ = ["main", "plain_text", "to_markdown"]

MOST_MEMORY, MOST_SECONDS = 2 * 1024**3, 120
"""Limits of this process, should the parent die before it ends it."""
DROPPED = ("script", "style", "template", "svg", "canvas", "iframe", "object", "embed", "noscript", "form", "link")
MAIN_CHARS = 200
"""A `<main>` with less text is not the page."""
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LINKS = ("http://", "https://", "mailto:")


def to_markdown(html: str, url: str) -> tuple[str, str]:
    """Convert a page to its title and Markdown, without what a reader does not see.

    Args:
        html: the page; broken HTML is read as browsers do, more or less.
        url: the page's address, for relative links.

    Raises:
        RecursionError: elements are nested too deeply.
    """
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    # bs4's types say of most members that they may be missing.
    soup = cast("Any", BeautifulSoup(html, "html.parser"))
    title: str = soup.title.get_text(" ", strip=True) if soup.title else ""
    for element in soup.find_all(DROPPED):
        element.decompose()
    for element in [*soup.find_all(hidden=True), *soup.find_all(style=_HIDING)]:
        if not element.decomposed:
            element.decompose()
    for link in soup.find_all("a", href=True):
        target = _absolute(url, str(link["href"]))
        if target is None:
            link.unwrap()
        else:
            link["href"] = target
    for image in soup.find_all("img"):
        source = _absolute(url, str(image.get("src") or ""))
        if source is None:
            image.decompose()
        else:
            image["src"] = source
    mains = soup.find_all("main")
    whole = mains[0] if len(mains) == 1 and len(mains[0].get_text(strip=True)) >= MAIN_CHARS else soup.body or soup
    converter = cast("Any", MarkdownConverter)(heading_style="ATX", bullets="-", escape_underscores=False)
    markdown: str = converter.convert_soup(whole)
    return title, re.sub(r"[ \t]*\n(?:[ \t]*\n){2,}", "\n\n", markdown).strip()


def _absolute(base: str, target: str) -> str | None:
    """Return a link's whole address; None for one that cannot be read, such as `javascript:` or `data:`."""
    try:
        whole = urljoin(base, target.strip())
    except ValueError:
        return None
    return whole if target and whole.lower().startswith(_LINKS) else None


class _PlainText(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.title: list[str] = []
        self._dropped: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._dropped = self._dropped or (tag if tag in ("script", "style", "template", "title") else None)
        self.text.append("\n" if tag not in ("a", "b", "i", "em", "strong", "span", "code") else "")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._dropped:
            self._dropped = None

    def handle_data(self, data: str) -> None:
        if self._dropped is None:
            self.text.append(data)
        elif self._dropped == "title":
            self.title.append(data)


def plain_text(html: str) -> tuple[str, str]:
    """Return a page's title and its text without any markup, for pages too deep to convert."""
    parser = _PlainText()
    parser.feed(html)
    parser.close()
    text = re.sub(r"\s*\n\s*", "\n", "".join(parser.text)).strip()
    return " ".join("".join(parser.title).split()), text


def main() -> None:
    """Convert stdin. Arguments: the page's address, the maximum characters of the result."""
    _limit()
    url, most = sys.argv[1], int(sys.argv[2])
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        title, text = to_markdown(html, url)
    except RecursionError:
        title, text = plain_text(html)
    answer = {"title": title[:300], "text": text[:most], "more": len(text) > most}
    sys.stdout.buffer.write(json.dumps(answer).encode())


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    for which, most in ((resource.RLIMIT_AS, MOST_MEMORY), (resource.RLIMIT_CPU, MOST_SECONDS)):
        try:
            resource.setrlimit(which, (most, most))
        except (OSError, ValueError):
            continue  # a lower limit is set, or the system knows none


if __name__ == "__main__":
    main()
