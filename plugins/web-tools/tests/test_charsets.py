"""Whatever a page says of its charset, its text is read, and nothing raises."""

from __future__ import annotations

import codecs
from encodings.aliases import aliases

import pytest
from deep_web_tools.charsets import decode
from deep_web_tools.kinds import content_type, is_html, looks_binary
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import examples

CYRILLIC = "Привет, мир. Как дела?"


@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-8", "utf-8"),
        ("windows-1251", "windows-1251"),
        ("koi8-r", "KOI8-R"),
        ("utf-16", None),
        ("utf-8-sig", "latin-1"),
        ("utf-8", None),
        ("utf-8", "no-such-charset"),
        ("utf-8", '"utf-8"'),
    ],
)
def test_what_the_server_says(encoding: str, named: str | None) -> None:
    assert decode(CYRILLIC.encode(encoding), named, html=False)[0] == CYRILLIC


def test_what_the_page_says_counts_if_the_server_says_nothing() -> None:
    page = '<html><head><meta charset="windows-1251"><title>' + CYRILLIC
    assert CYRILLIC in decode(page.encode("windows-1251"), None, html=True)[0]
    old = '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">' + CYRILLIC
    assert CYRILLIC in decode(old.encode("windows-1251"), None, html=True)[0]
    assert CYRILLIC not in decode(page.encode("windows-1251"), None, html=False)[0]


def test_a_wrong_charset_of_the_server_loses_to_one_that_fits() -> None:
    text = "名前はまだ無い。" * 20
    assert decode(text.encode("shift_jis"), "utf-8", html=False)[1] == "cp1252"  # nothing says what it is
    page = f'<meta charset="shift_jis">{text}'
    assert text in decode(page.encode("shift_jis"), "utf-8", html=True)[0]
    assert decode(text.encode(), "ascii", html=False)[1] in ("cp1252", "utf-8")


def test_bytes_that_fit_nothing_are_shown_as_the_web_shows_them() -> None:
    assert decode(b"caf\xe9 \x93quoted\x94 " * 9, None, html=False)[0].startswith("café “quoted”")


def test_a_character_that_the_limit_cut_does_not_change_the_charset() -> None:
    text, encoding = decode("né".encode()[:-1], "utf-8", html=False)
    assert (text, encoding) == ("n\ufffd", "utf-8")


@pytest.mark.parametrize(
    "named",
    ["hex", "zip", "base64", "rot13", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "utf-7", "mbcs"],
)
def test_a_codec_that_is_no_charset_of_the_web_is_not_used(named: str) -> None:
    assert decode(b"+AGE- \\u0061 plain", named, html=False) == ("+AGE- \\u0061 plain", "utf-8")


@settings(max_examples=examples(300))
@given(
    st.binary(max_size=500),
    st.none() | st.sampled_from(sorted({*aliases, *aliases.values()})) | st.text(),
    st.booleans(),
)
def test_nothing_raises(data: bytes, named: str | None, html: bool) -> None:
    text, encoding = decode(data, named, html=html)
    codecs.lookup(encoding)
    assert len(text) <= len(data)


@settings(max_examples=examples(300))
@given(st.text(max_size=300), st.binary(max_size=300))
def test_no_header_raises(header: str, data: bytes) -> None:
    kind, charset = content_type(header)
    decode(data, charset, html=is_html(kind, data))
    looks_binary(data)


def test_a_header_is_split() -> None:
    assert content_type('Text/HTML; Charset="UTF-8"; x=y') == ("text/html", "UTF-8")
    assert content_type("") == ("", None)


def test_utf_16_without_a_mark_is_not_binary() -> None:
    assert not looks_binary("a text".encode("utf-16-le"))
    assert not looks_binary("a text".encode("utf-16"))
    assert looks_binary(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0" + b"\x7f\xff" * 40)
