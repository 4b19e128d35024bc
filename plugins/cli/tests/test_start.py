"""The start of the command: answers before click, files opened and modules imported. Counts, not seconds."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deep_cli.main import main
from deep_cli.terminal.screen import redact

from deep_core.plugin_api import visible
from tests.environments import Distribution

OPENED = """
import os, sys
seen = []
wanted = {{"open", "os.listdir", "os.scandir"}}
sys.addaudithook(lambda event, values: seen.append((event, str(values[0]))) if event in wanted else None)
sys.argv = ["deep", *{arguments!r}]
from deep_cli.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
answer([[event, path] for event, path in seen if ".dist-info" in path or path == {site!r}])
"""


def opened(deep: Any, *arguments: str) -> list[tuple[str, str]]:
    """The files opened in distributions, by event and name below the site directory, in order."""
    site = deep.environment.site.resolve()
    found = deep.environment.ask(OPENED.format(arguments=list(arguments), site=str(site)))
    return [(event, Path(path).relative_to(site).as_posix()) for event, path in found]


def test_the_version_is_the_one_that_the_parser_tells(
    deep: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as parsed:
        main(["--version"])
    assert not parsed.value.code
    assert deep("--version").ok().out == capsys.readouterr().out


def test_the_version_is_printed_without_click(deep: Any) -> None:
    new = deep.environment.ask(
        "import sys; sys.argv = ['deep', '--version']\n"
        "from deep_cli.__main__ import main\n"
        "main()\n"
        "answer(sorted(sys.modules))"
    )
    assert not {"click", "dataclasses", "inspect", "pathlib", "deep_cli.main"} & set(new)


@pytest.mark.slow
def test_a_version_among_other_words_is_left_to_the_parser(deep: Any) -> None:
    assert deep("--verbose", "--version").ok().out == deep("--version").ok().out
    for arguments in (("--version", "--nonsense"), ("--versions",)):
        assert deep(*arguments).code == 2


@pytest.mark.slow
def test_a_list_looks_once_at_a_distribution_and_reads_no_metadata_again(make_deep: Any) -> None:
    deep = make_deep(others=(Distribution("acme-sun", {"sun": "acme_sun"}), Distribution("acme-none")))
    bare = deep.environment.site / "acme_bare-1.0.dist-info"
    bare.mkdir()
    (bare / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-bare\nVersion: 1.0\n", encoding="utf-8")
    first = {name for event, name in opened(deep, "plugins", "list") if event == "open"}
    assert {name for name in first if name.startswith("acme_sun")} == {
        f"acme_sun-1.0.dist-info/{file}" for file in ("METADATA", "direct_url.json", "entry_points.txt")
    }
    found = opened(deep, "plugins", "list")
    assert found.count(("os.listdir", ".")) <= 2  # once by the import system
    assert len(found) == len(set(found)), found
    names = {name for event, name in found if event == "open"}
    assert names == {f"{path.name}/entry_points.txt" for path in deep.environment.site.glob("*.dist-info")}
    assert "os.scandir" not in {event for event, _ in found}


@pytest.mark.slow
def test_a_list_imports_what_tells_a_status_and_nothing_of_what_loads(deep: Any) -> None:
    deep("plugins", "list").ok()  # the first one reads the plugins' metadata, with libraries
    new = set(
        deep.environment.ask(
            "import sys; sys.argv = ['deep', 'plugins', 'list']\n"
            "from deep_cli.__main__ import main\n"
            "try:\n"
            "    main()\n"
            "except SystemExit as end:\n"
            "    assert not end.code\n"
            "answer(sorted(sys.modules))"
        )
    )
    assert "deep_core.plugins.status" in new
    assert not {"pluggy", "packaging", "tomllib", "email", "zipfile", "hashlib", "difflib"} & new
    unneeded = {f"deep_core.plugins.{name}" for name in ("kernel", "load", "dispatch", "registry")}
    assert not {*unneeded, "deep_core.tracing", "deep_core.agent"} & new


@pytest.mark.parametrize(
    ("points", "listed"),
    [
        (b"[deep]\nsun = acme_sun\n", True),
        (b"[console_scripts]\nx = a:b\n\n[deep]\r\nsun = acme_sun\r\n", True),
        (b"[deep]\nsun\n", True),  # broken: shown, with what is wrong
        (b"[deep]\nsun = acme_sun\n\xff\n", True),
        (b"[deep]\n", False),
        (b"[deep.commands]\nsun = acme_sun\n", False),
        (b"[console_scripts]\nsun = acme_sun:main [deep]\n\xff\n", False),
        (b"", False),
        (None, False),
    ],
)
def test_what_counts_as_a_plugin(make_deep: Any, points: bytes | None, listed: bool) -> None:
    deep = make_deep(others=(Distribution("acme-sun", {"sun": "acme_sun"}),))
    file = deep.environment.site / "acme_sun-1.0.dist-info" / "entry_points.txt"
    if points is None:
        file.unlink()
    else:
        file.write_bytes(points)
    plugins = json.loads(deep("plugins", "list", "--json").ok().out)["plugins"]
    assert {plugin["distribution"] for plugin in plugins} == {
        "deep-cli",
        "deep-sessions",
        *(["acme-sun"] if listed else []),
    }


@pytest.mark.slow
def test_every_control_and_invisible_character_is_made_visible_and_no_other_is_touched() -> None:
    hidden = [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0xD800, 0xE000), 0x2800]
    # Default_Ignorable_Code_Point of Unicode 16's DerivedCoreProperties.txt, and the marks of annotations beside it.
    hidden += [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010)]
    hidden += [*range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0]
    hidden += [*range(0xFFF0, 0xFFFC), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000)]
    shown = {*hidden} - {ord("\t"), ord("\n")}
    for code in shown:
        text = f"a{chr(code)}b"
        assert visible(text) != text, hex(code)
        assert visible(text).isascii(), hex(code)
    others = "b".join(chr(code) for code in range(sys.maxunicode + 1) if code not in shown)
    assert visible(others) == others


@pytest.mark.parametrize(
    "text", ["\u26a0\ufe0f", "\U0001f469\u200d\U0001f4bb", "\u2764\ufe0f\u200d\U0001f525", "caf\u00e9"]
)
def test_emoji_and_letters_stay_as_they_are(text: str) -> None:
    assert visible(text) == text


def test_secrets_are_masked_and_an_empty_text_stays_empty() -> None:
    environ = {"ACME_TOKEN": "canary-1", "ACME_PLACE": "canary-2"}
    assert redact("canary-1 canary-2 https://me:pw@host", environ) == "*** canary-2 https://***@host"
    assert redact("", environ) == ""


def test_a_variable_that_goes_while_the_others_are_read_is_left_out() -> None:
    class Going(dict[str, str]):
        def __iter__(self) -> Iterator[str]:
            return iter(["GONE_TOKEN", *super().__iter__()])  # as `os.environ` does when another thread deletes one

    assert redact("canary-1", Going(ACME_TOKEN="canary-1")) == "***"
