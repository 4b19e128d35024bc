"""Hooks of mkdocs: the search finds guides first, and copy buttons copy what can be pasted."""

from __future__ import annotations

import html
import re
from typing import Any

LATER = (
    (re.compile(r"decisions/"), 1e-5),
    (re.compile(r"reference/|(architecture|how-plugins-work|plugins)\.md$"), 1e-4),
)
"""Pages that explain why, and pages that list everything: a reader who searches asks how, so guides come first."""
ONE_WORD = re.compile(r"# \S+\n")
"""The start of a page that one word names: it is the page about that word."""
CONSOLE = re.compile(r"^```console\n(?P<code>.*?)^```$", re.M | re.S)
BLOCK = re.compile(r'(?P<start><div class="language-(?P<language>\w+) highlight")(?P<rest>>.*?</div>)', re.S)
CODE = re.compile(r"<code>(?P<code>.*?)</code>", re.S)
COMMAND = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|(?<=\S)#|[^#])*""")
"""A shell command up to its comment."""


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rank pages in the search, and call console blocks without prompts what they are: commands.

    Pygments takes each line of a console block that has no prompt for output.
    """
    later = [boost for pattern, boost in LATER if pattern.match(page.file.src_uri)]
    if later or ONE_WORD.match(markdown):
        page.meta["search"] = {"boost": later[0] if later else 2}

    def as_commands(block: re.Match[str]) -> str:
        return block[0] if has_prompts(block["code"]) else f"```bash\n{block['code']}```"

    return CONSOLE.sub(as_commands, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Write beside each block what its copy button copies, where this is not what the block shows."""

    def add(block: re.Match[str]) -> str:
        code = CODE.search(block["rest"])
        shown = html.unescape(re.sub(r"<[^>]+>", "", code["code"] if code else ""))
        copied = pasted(block["language"], shown)
        return block[0] if copied == shown else f'{block["start"]} data-copy="{html.escape(copied)}"{block["rest"]}'

    return BLOCK.sub(add, content)


def has_prompts(code: str) -> bool:
    """Whether commands stand behind `$ `, and the other lines are output."""
    return any(line.startswith("$ ") for line in code.splitlines())


def pasted(language: str, code: str) -> str:
    """What a reader wants of a block: commands without prompts, comments and output, Python without what it prints."""
    lines = code.splitlines()
    if language == "python":
        lines = [line for line in lines if not line.lstrip().startswith("#>")]
    elif language in ("console", "bash"):
        if has_prompts(code):
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        lines = [kept for line in lines if (kept := without_comment(line))]
    return "".join(f"{line}\n" for line in lines)


def without_comment(command: str) -> str:
    """The command alone: an interactive zsh takes a comment for arguments."""
    found = COMMAND.match(command)
    return found[0].rstrip() if found else command
