"""An edit changes what it names and nothing else."""

from __future__ import annotations

import pytest
from deep_filesystem.codec import Codec, Unencodable, detect
from deep_filesystem.edit import Refused, edit_bytes
from deep_filesystem.overwrite import overwrite_bytes
from hypothesis import assume, example, given
from hypothesis import strategies as st

UTF8 = Codec("utf-8")
line = st.text(st.sampled_from("ab\té "), max_size=4)
ending = st.sampled_from(["\n", "\r\n"])
CODECS = [UTF8, Codec("utf-8", b"\xef\xbb\xbf"), Codec("utf-16-le", b"\xff\xfe"), Codec("latin-1")]


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(line, ending), max_size=6))
    return "".join(text + end for text, end in parts) + draw(line)


@given(texts(), texts(), texts(), st.text(st.sampled_from("xyz\n"), max_size=6), st.sampled_from(CODECS))
@example("a\r\n", "x", "\r\nb", "y\nz", UTF8)
def test_bytes_outside_of_the_edit_are_identical(before: str, middle: str, after: str, new: str, codec: Codec) -> None:
    # A marked middle is unique, so the edit is allowed.
    old = f"<{middle}>"
    data = codec.encode(before + old + after)
    edited = edit_bytes(data, codec, old.replace("\r\n", "\n"), new)
    head, tail = codec.encode(before), codec.encode(after)[len(codec.mark) :]
    assert edited.data.startswith(head)
    assert edited.data.endswith(tail)
    inside = edited.data[len(head) : len(edited.data) - len(tail)].decode(codec.name)
    assert inside.replace("\r\n", "\n") == new
    (span,) = edited.spans
    assert (span.start, span.end) == (len(head), len(data) - len(tail))
    assert span.length == len(edited.data) - len(head) - len(tail)


@given(
    texts(), st.text(st.sampled_from("ab\té \n"), min_size=1, max_size=3), st.text(st.sampled_from("xy\n"), max_size=3)
)
def test_replace_all_is_what_str_replace_does(text: str, old: str, new: str) -> None:
    assume(old != new)
    assume(old in text.replace("\r\n", "\n"))
    edited = edit_bytes(text.encode(), UTF8, old, new, replace_all=True)
    assert edited.data.decode().replace("\r\n", "\n") == text.replace("\r\n", "\n").replace(old, new)


def test_the_replacement_gets_the_endings_of_the_lines_it_replaces() -> None:
    data = b"one\r\ntwo\nthree\r\n"
    assert edit_bytes(data, UTF8, "one\ntwo\n", "1\n2\n").data == b"1\r\n2\nthree\r\n"
    assert edit_bytes(data, UTF8, "two", "2\n2").data == b"one\r\n2\n2\nthree\r\n"
    assert edit_bytes(data, UTF8, "three", "3\n3\n3").data == b"one\r\ntwo\n3\r\n3\r\n3\r\n"
    assert edit_bytes(b"a\r\nb", UTF8, "b", "b\nc").data == b"a\r\nb\r\nc"


def test_an_ambiguous_text_is_refused_with_its_lines() -> None:
    with pytest.raises(Refused, match=r"2 times, in lines 1, 3"):
        edit_bytes(b"x = 1\ny\nx = 1\n", UTF8, "x = 1", "x = 2")
    with pytest.raises(Refused, match="2 times"):
        edit_bytes(b"aaa", UTF8, "aa", "b")


def test_many_occurrences_are_counted_and_ten_are_named() -> None:
    with pytest.raises(Refused, match=r"25 times, in lines 1, 2, .* 10 and 15 more"):
        edit_bytes(b"x\n" * 25, UTF8, "x", "y")


@pytest.mark.parametrize(
    ("data", "old", "says"),
    [
        (b"a\n\tdef f():\n", "    def f():", "Line 2 differs in white space only"),
        (b"import os\nvalue = compute(1)\n", "value = compute(2)", "Nearest: line 2:\n2\tvalue = compute(1)"),
        (b"alpha\nbeta\n", "1\talpha\n2\tbeta", "line numbers of read_file"),
        (b"", "x", "Read the file again"),
        (
            "a\ncafe\u0301 au lait\n".encode(),
            "caf\u00e9",
            r"Line 2 looks the same but has other characters for its accents",
        ),
        ("cafe\u0301\n".encode(), "caf\u00e9", r"'cafe\u0301'. Copy them"),
        ("caf\u00e9\n".encode(), "cafe\u0301", r"'caf\xe9'. Copy them"),
    ],
)
def test_an_absent_text_is_refused_with_the_nearest(data: bytes, old: str, says: str) -> None:
    with pytest.raises(Refused) as caught:
        edit_bytes(data, UTF8, old, "new")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "says"), [("", "x", "is empty"), ("a", "a", "are equal"), ("a\r\n", "a\n", "equal")]
)
def test_an_edit_that_says_nothing_is_refused(old: str, new: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        edit_bytes(b"a\r\n", UTF8, old, new)


def test_a_character_that_the_file_cannot_hold_is_refused() -> None:
    data = "caf\xe9\nx\n".encode("latin-1")
    with pytest.raises(Unencodable, match=r"U\+20AC, line 2"):
        edit_bytes(data, detect(data), "x", "5 €")


def test_stray_bytes_stay_as_they_are() -> None:
    data = "größe größe größe\n".encode() + b"\xff\xfe stray\nend\n"
    assert edit_bytes(data, detect(data), "end", "Ende").data == data.replace(b"end", b"Ende")


@given(texts(), st.sampled_from(CODECS))
def test_overwriting_with_the_same_text_changes_no_byte(text: str, codec: Codec) -> None:
    data = codec.encode(text)
    assert overwrite_bytes(data, codec, text.replace("\r\n", "\n")) == data


@given(texts(), texts(), st.sampled_from(CODECS))
def test_overwriting_keeps_encoding_and_gives_the_text(old: str, new: str, codec: Codec) -> None:
    data = overwrite_bytes(codec.encode(old), codec, new)
    assert data.startswith(codec.mark)
    assert codec.decode(data).replace("\r\n", "\n") == new.replace("\r\n", "\n")


def test_overwriting_keeps_the_line_ending() -> None:
    assert overwrite_bytes(b"a\r\nb\r\n", UTF8, "x\ny\nz") == b"x\r\ny\r\nz"
    assert overwrite_bytes(b"a\nb\n", UTF8, "x\r\ny\r\n") == b"x\ny\n"
    assert overwrite_bytes(b"a\nb\r\nc\r\nd\r\n", UTF8, "a\nB\nc\nd\n") == b"a\nB\r\nc\r\nd\r\n"
