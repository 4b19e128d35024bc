"""Files in encodings of the time before UTF-8: found, read, edited and written back, or refused; never damaged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deep_backends import local_backend
from deep_filesystem import decode_text
from deep_filesystem.codec import NotText, UnknownEncoding, detect, named
from deep_filesystem.edit import edit_bytes
from pydantic_ai.workspaces import Workspace

from plugins.filesystem.tests.conftest import Session
from tests.drawn import many

TEXTS = {
    "gbk": "配置文件：请输入用户名和密码\n打开数据库连接\nport=1\n",
    "big5": "設定檔案：請輸入使用者名稱\n開啟資料庫\nport=1\n",
    "shift_jis": "設定ファイル\nこれは表示されます\nport=1\n",
    "euc_kr": "설정 파일입니다\n사용자 이름을 입력하세요\nport=1\n",
    "koi8-r": "Файл настроек\nОшибка входа\nport=1\n",
    "cp1251": "Имя пользователя\nФайл не найден\nport=1\n",
    "utf-16-le": "Файл не найден\nport=1\n",
    "utf-16": "配置文件\nport=1\n",
}  # fmt: skip
LATIN = [
    "café au lait\n",
    "für größere Straßen\n",
    "ÄÖÜ äöü ß\n",
    "São Paulo\n",
]


@pytest.mark.parametrize("encoding", TEXTS)
def test_the_encoding_is_found_of_the_file_and_of_one_line(encoding: str) -> None:
    text = TEXTS[encoding]
    for part in (text, text.splitlines(keepends=True)[0], "x = 1\n" * 50_000 + text):
        data = part.encode(encoding)
        codec = detect(data)
        assert codec.decode(data) == part
        assert codec.encode(part) == data


@pytest.mark.parametrize("text", LATIN)
def test_western_text_is_taken_for_nothing_else(text: str) -> None:
    assert detect(text.encode("latin-1")).decode(text.encode("latin-1")) == text


@pytest.mark.parametrize("data", [b"ab\0c", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"\1\0\2\0\3\0\4\0", b"\0a"])
def test_a_binary_file_is_no_utf16(data: bytes) -> None:
    with pytest.raises(NotText):
        detect(data)


@pytest.mark.parametrize("name", ["gbk", "Shift-JIS", "euc-kr", "windows-1251", "KOI8-R", "big5", "utf-16", "cp866"])
def test_an_encoding_has_many_names(name: str) -> None:
    assert named(name, b"").encode("a\n").replace(b"\0", b"") == b"a\n"


@pytest.mark.parametrize(
    "name", ["", "no such", "iso-2022-jp", "hz", "utf-7", "rot13", "hex", "cp037", "idna", "a\0b", "x" * 9_000]
)
def test_what_is_no_encoding_of_text_is_refused(name: str) -> None:
    with pytest.raises(UnknownEncoding):
        named(name, b"abc")


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", TEXTS)
async def test_a_file_stays_in_its_encoding(root: Path, encoding: str) -> None:
    text = TEXTS[encoding]
    (root / "a.txt").write_bytes(text.encode(encoding))
    session = Session(Workspace(local_backend(root)))
    assert text.splitlines()[0] in await session.ok("read_file", "a.txt")
    await session.ok("edit_file", "a.txt", "port=1", "port=2")
    edited = text.replace("port=1", "port=2")
    assert (root / "a.txt").read_bytes() == edited.encode(encoding)
    # What is left is ASCII, and the file is still what it was.
    await session.ok("write_file", "a.txt", "port=3\n")
    await session.ok("edit_file", "a.txt", "port=3", text.splitlines()[0])
    assert (root / "a.txt").read_bytes() == f"{text.splitlines()[0]}\n".encode(encoding)
    before = (root / "a.txt").read_bytes()
    if not encoding.startswith("utf"):
        refused = await session.failed("edit_file", "a.txt", text.splitlines()[0], "\U0001f600")
        assert "U+1F600" in refused
        assert "Nothing was written" in refused
    assert (root / "a.txt").read_bytes() == before


@pytest.mark.anyio
async def test_the_model_can_say_the_encoding(root: Path) -> None:
    data = "\u00e4\u00f6\n".encode("cp850")
    (root / "a.txt").write_bytes(data)
    session = Session(Workspace(local_backend(root)))
    assert "encoding=" in await session.ok("read_file", "a.txt")
    assert "\u00e4\u00f6" in await session.ok("read_file", "a.txt", encoding="cp850")
    await session.ok("edit_file", "a.txt", "\u00f6", "\u00fc")
    assert (root / "a.txt").read_bytes() == "\u00e4\u00fc\n".encode("cp850")
    assert "unknown encoding" in await session.failed("read_file", "a.txt", encoding="klingon")


def test_random_edits_are_those_of_the_text_byte_for_byte() -> None:
    """2,400 at night, in eight encodings; by day a sample."""
    draw = random.Random(43)
    for encoding, text in TEXTS.items():
        letters = sorted({*text} - {"\n"})
        for _ in range(many(40, 300)):
            lines = ["".join(draw.choices(letters, k=draw.randrange(12))) for _ in range(draw.randrange(1, 9))]
            ending = draw.choice(["\n", "\r\n"])
            endings = draw.choice([[ending], ["\n", "\r\n"]])
            old, new = ("".join(draw.choices(letters, k=draw.randrange(1, 5))) for _ in range(2))
            lines.insert(draw.randrange(len(lines) + 1), f"<{old}>")
            whole = text.replace("\n", ending) + "".join(line + draw.choice(endings) for line in lines)
            data = whole.encode(encoding)
            codec = named(encoding, data)
            edited = edit_bytes(data, codec, f"<{old}>", f"[{new}]").data
            assert edited == whole.replace(f"<{old}>", f"[{new}]").encode(encoding), (encoding, old, new)


def test_bytes_with_two_codes_for_a_character_stay() -> None:
    data = b"\xee\xef one\n\xfa\x40 two\n\x81\xca three\n"  # three pairs: cp932 writes back others
    codec = named("cp932", data)
    assert codec.encode(codec.decode(data)) != data
    assert edit_bytes(data, codec, "two", "2").data == data.replace(b"two", b"2")


@pytest.mark.anyio
@pytest.mark.parametrize("encoding", ["gbk", "shift_jis", "euc_kr", "big5", "gb18030"])
async def test_a_long_line_is_read_in_parts_without_a_gap(root: Path, encoding: str) -> None:
    key = encoding if encoding in TEXTS else "gbk"
    text = "".join(TEXTS[key].splitlines()) * 40
    (root / "a.txt").write_bytes(text.encode(encoding))
    session = Session(Workspace(local_backend(root)), line_chars=101, read_chars=103)
    page = await session.ok("read_file", "a.txt", encoding=encoding)
    got, byte = page.partition("\t")[2].partition(" [line")[0], int(page.split("byte=")[1].split("]")[0])
    while True:
        part, _, tail = (await session.ok("read_file", "a.txt", byte=byte, encoding=encoding)).rpartition("\n")
        got += part
        if "next byte=" not in tail:
            break
        byte = int(tail.split("next byte=")[1].rstrip("]"))
    assert got == text


@pytest.mark.parametrize(
    ("there", "wanted", "named_char"),
    [
        ("it\u2019s", "it's", "U+2019 RIGHT SINGLE QUOTATION MARK"),
        ('"a"', "\u201ca\u201d", "U+201C LEFT DOUBLE QUOTATION MARK"),
        ("a \u2013 b", "a - b", "U+2013 EN DASH"),
        ("to\u200btal", "total", "U+200B ZERO WIDTH SPACE"),
        ("total", "to\u200btal", "U+200B ZERO WIDTH SPACE"),
        ("a\u00a0b", "a b", "U+00A0 NO-BREAK SPACE"),
        ("n\u0430me = 1", "name = 1", "U+0430 CYRILLIC SMALL LETTER A"),
        ("f\uff08x)", "f(x)", "U+FF08 FULLWIDTH LEFT PARENTHESIS"),
    ],
)
def test_a_refused_edit_names_the_character(there: str, wanted: str, named_char: str) -> None:
    data = f"first\n  {there} end\n".encode()
    with pytest.raises(ValueError, match="looks the same") as caught:
        edit_bytes(data, detect(data), wanted, "new")
    assert named_char in str(caught.value)
    assert "Line 2" in str(caught.value)


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["\ud800", "a\udc80", "\ufeff", "\u200b"])
async def test_no_text_of_an_edit_ends_the_run(root: Path, text: str) -> None:
    (root / "a.txt").write_bytes(TEXTS["gbk"].encode("gbk"))
    session = Session(Workspace(local_backend(root)))
    await session.ok("read_file", "a.txt")
    before = (root / "a.txt").read_bytes()
    for old, new in ((text, "x"), ("port=1", text)):
        await session.failed("edit_file", "a.txt", old, new)
    assert (root / "a.txt").read_bytes() == before


def test_instructions_are_decoded_however_damaged() -> None:
    for encoding, text in TEXTS.items():
        assert decode_text(text.encode(encoding)) == text
    assert decode_text(b"\xef\xbb\xbfa") == "a"
    assert decode_text(b"a\0\1\xff").startswith("a")
