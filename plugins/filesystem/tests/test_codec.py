"""Any bytes that are taken for text come back as the same bytes."""

from __future__ import annotations

import pytest
from deep_filesystem.codec import Codec, NotText, Unencodable, detect
from hypothesis import given
from hypothesis import strategies as st

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252"]


@given(st.binary(max_size=200))
def test_what_is_decoded_is_encoded_to_the_same_bytes(data: bytes) -> None:
    try:
        codec = detect(data)
        text = codec.decode(data)
    except NotText:
        return
    assert codec.encode(text) == data


@given(st.text(max_size=50))
def test_utf8_is_distinguished_from_everything_else(text: str) -> None:
    data = text.encode()
    if "\0" in text or text.startswith("\ufeff"):
        return
    assert detect(data) == Codec("utf-8")


@pytest.mark.parametrize(
    ("data", "label"),
    [
        ("héllo\n".encode("utf-16"), "utf-16-le with BOM"),
        (b"\xfe\xff" + "hé".encode("utf-16-be"), "utf-16-be with BOM"),
        ("plain text\n".encode("utf-16-le"), "utf-16-le"),
        ("plain text\n".encode("utf-16-be"), "utf-16-be"),
        ("hé".encode("utf-32"), "utf-32-le with BOM"),
        ("hé".encode("utf-8-sig"), "utf-8 with BOM"),
        ("caf\xe9 au lait".encode("latin-1"), "latin-1"),
        ("\u201cquoted\u201d".encode("cp1252"), "cp1252"),
        ("größer ".encode() * 5 + b"\xff", "utf-8"),
        (b"", "utf-8"),
    ],
)
def test_the_encoding_is_found(data: bytes, label: str) -> None:
    codec = detect(data)
    assert codec.label == label
    assert codec.encode(codec.decode(data)) == data


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01\0\0\0\0", b"a\0b\0\0\0c", b"\0" * 100, b"text\0"])
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(NotText):
        detect(data).decode(data)


def test_an_odd_byte_in_utf16_is_reported_with_its_place() -> None:
    data = "abc".encode("utf-16") + b"x"
    with pytest.raises(NotText, match="at byte 8"):
        detect(data).decode(data)


def test_a_missing_character_is_named_with_its_line() -> None:
    with pytest.raises(Unencodable, match=r"latin-1.*'€' \(U\+20AC, line 2"):
        Codec("latin-1").encode("a\n€")


def test_a_character_cut_at_the_end_of_a_first_chunk_is_still_utf8() -> None:
    assert detect("ab€".encode()[:-1], complete=False) == Codec("utf-8")
    assert detect("ab€".encode()[:-1]).name != "utf-8"


@given(st.text(max_size=60), st.integers(1, 20), st.sampled_from(ENCODINGS))
def test_a_text_taken_in_parts_is_the_text(text: str, chars: int, encoding: str) -> None:
    text = text.replace("\0", "")
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:
        return
    try:
        codec = detect(data)
    except NotText:
        return
    rest, parts = data[len(codec.mark) :], []
    while rest:
        part, size = codec.take(rest, chars)
        assert 0 < size <= len(rest)
        assert len(part) <= chars + 1
        parts.append(part)
        rest = rest[size:]
    shown = codec.decode(data)
    assert "".join(parts) == "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in shown)
