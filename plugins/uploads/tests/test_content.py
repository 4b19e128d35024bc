"""The record of a file: its encoding, its lines, its type, and whether its name contradicts its content."""

from __future__ import annotations

import hashlib
import io
import itertools
import tarfile
import zipfile

import pytest
from deep_uploads.encodings import SAMPLE
from deep_uploads.kinds import judge, recognize
from deep_uploads.measure import Measured, Meter
from hypothesis import given
from hypothesis import strategies as st

from tests import another_process


def measure(data: bytes, cuts: list[int] | None = None) -> Measured:
    meter = Meter()
    for start, end in itertools.pairwise([0, *sorted(cuts or ()), len(data)]):
        meter.feed(data[start:end])
    return meter.finish()


@pytest.mark.parametrize(
    ("data", "encoding", "lines"),
    [
        (b"", "utf-8", 0),
        (b"a", "utf-8", 1),
        (b"a\n", "utf-8", 1),
        (b"a\nb", "utf-8", 2),
        (b"a\r\nb\r\n", "utf-8", 2),
        (b"a\rb", "utf-8", 1),
        (b"\n\n\n", "utf-8", 3),
        ("naïve 日本\n".encode(), "utf-8", 1),
        ("a\nb\n".encode("utf-8-sig"), "utf-8-sig", 2),
        ("a\nb\u0a0a\n".encode("utf-16"), "utf-16", 2),
        ("a\nb\n".encode("utf-16-le") * 3, "utf-16-le", 6),
        ("a\nb\n".encode("utf-16-be") * 3, "utf-16-be", 6),
        ("a\nb\n".encode("utf-32"), "utf-32", 2),
        ("Grüße aus Köln\n".encode("cp1252"), "cp1252", 1),
        ("a;b;c\n1;é;2\n".encode("latin-1"), "cp1252", 2),
        ("Привет мир, это тест\n".encode("cp1251") * 5, "cp1251", 5),
        ("日本語のテキスト文書です。\n".encode("shift_jis") * 5, "cp932", 5),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", None, None),
        (b"text\0text", None, None),
        (b"\xff\xfe\x00", None, None),
        (b"\x80\x81\x82\xff", None, None),
        (b"\xff\x80\x90\xaa\xc1\xf5", None, None),
        (b"\x89a\xff", None, None),
        (b"\xc8\xc9\xca\xcb\xcc\xcd\xce", None, None),
        ("Да, это текст на русском языке".encode("cp1251"), "cp1251", 1),
        (bytes(range(1, 256)) * 10, None, None),
        (b"the end of a word: caf\xc3", "cp1252", 1),
    ],
)
def test_encoding_and_lines(data: bytes, encoding: str | None, lines: int | None) -> None:
    found = measure(data)
    assert (found.encoding, found.line_count) == (encoding, lines)
    if encoding is not None:
        data.decode(encoding)


@given(st.binary(min_size=1, max_size=100))
def test_what_has_neither_mark_nor_zeros_is_never_utf_16(data: bytes) -> None:
    encoding = measure(data).encoding
    assert (
        encoding is None
        or not encoding.startswith(("utf-16", "utf-32"))
        or data[:2] in (b"\xff\xfe", b"\xfe\xff")
        or 0 in data
    )


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.data())
def test_utf_8_is_known_whatever_the_pieces(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(raw)), max_size=5))
    found = measure(raw, cuts)
    assert found.encoding in ("utf-8", "utf-8-sig")
    assert found.line_count == text.count("\n") + (bool(text) and not text.endswith("\n"))
    assert (found.size, found.sha256) == (len(raw), hashlib.sha256(raw).hexdigest())


def test_a_long_file_is_judged_by_all_of_it() -> None:
    ascii_start = b"plain ascii line\n" * 20_000
    assert len(ascii_start) > SAMPLE
    cut = [300_000]
    assert measure(ascii_start + "schön\n".encode("cp1252"), cut).encoding == "cp1252"
    assert measure(ascii_start + "schön\n".encode(), cut).encoding == "utf-8"
    assert measure(ascii_start + b"\0", cut).encoding is None
    assert measure(ascii_start + "Пример текста на русском языке\n".encode("cp1251") * 9, cut).encoding == "cp1251"
    assert len(measure(ascii_start).head) == SAMPLE


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return out.getvalue()


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\0"
EXE = b"MZ\x90\0\x03\0\0\0"


@pytest.mark.parametrize(
    ("name", "data", "mime", "mismatch"),
    [
        ("a.png", PNG, "image/png", None),
        ("A.PNG", PNG, "image/png", None),
        ("a.png", PDF, "application/pdf", "named .png, content is a PDF document"),
        ("a.pdf", EXE, "application/vnd.microsoft.portable-executable", "named .pdf, content is a Windows program"),
        ("a.txt", EXE, "application/vnd.microsoft.portable-executable", "named .txt, content is a Windows program"),
        ("a.csv", PNG, "image/png", "named .csv, content is a PNG image"),
        ("a.png", b"just text\n", "text/plain", "named .png, content is text"),
        ("a.png", b"\0\x01\x02\x03", "application/octet-stream", "named .png, content is another format"),
        ("a.jpg", b"<html><script>alert(1)</script>", "text/html", "named .jpg, content is an HTML page"),
        ("a.jpg", b"<?xml version='1.0'?><svg onload='x'>", "image/svg+xml", "named .jpg, content is an SVG image"),
        ("a.svg", b"<svg xmlns='x'/>", "image/svg+xml", None),
        ("a.html", b"<!DOCTYPE html><p>", "text/html", None),
        ("notes.txt", b"<html> is how pages begin", "text/plain", None),
        ("MZ.txt", b"MZ is how programs begin", "text/plain", None),
        ("a.txt", b"BM\nID3 GIF89a", "text/plain", None),
        ("a.csv", b"a,b\n", "text/csv", None),
        ("a.csv", b"\0\x01\x02", "application/octet-stream", "named .csv, content is binary"),
        ("data.json", b"{}", "application/json", None),
        ("README.md", b"# x", "text/markdown", None),
        ("Makefile", b"all:\n", "text/plain", None),
        ("blob", b"\0\x01", "application/octet-stream", None),
        ("blob.bin", PDF, "application/pdf", None),
        ("a.unknownkind", PNG, "image/png", None),
        ("a.pdf", b"%PDF-1.4 all ascii", "application/pdf", None),
        ("a.zip", zipped("a.txt"), "application/zip", None),
        ("a.docx", zipped("x"), "application/vnd.openxmlformats-officedocument.wordprocessingml.document", None),
        ("a.pdf", zipped("x"), "application/zip", "named .pdf, content is a ZIP archive"),
        ("a.zip", zipped("a.txt").replace(b"x", b"%PDF-"), "application/zip", None),
        ("a.pdf", b"\0rubbish" + PDF, "application/pdf", None),
        ("a.ts", (b"G" + b"\0" * 187) * 3, "video/mp2t", None),
        ("a.ts", b"const a = 1\n", "text/x-typescript", None),
        ("a.flac", b"ID3\x04\0\0", "audio/flac", None),
        ("a.key", b"-----BEGIN PRIVATE KEY-----\n", "text/plain", None),
        ("a.tar", tarred(), "application/x-tar", None),
        ("a.tar.gz", b"\x1f\x8b\x08\0\0", "application/gzip", None),
        ("a.webp", b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp", None),
        ("a.wav", b"RIFF\x10\0\0\0AVI LIST", "video/x-msvideo", "named .wav, content is an AVI video"),
        ("a.mp4", b"\0\0\0\x18ftypisom", "video/mp4", None),
        ("a.heic", b"\0\0\0\x18ftypheic", "image/heic", None),
        ("a.db", b"SQLite format 3\0", "application/vnd.sqlite3", None),
        ("a.py", b"print(1)\n", "text/x-python", None),
        ("empty.pdf", b"", "application/pdf", None),
        ("empty", b"", "application/octet-stream", None),
    ],
)
def test_the_type_comes_from_the_content_and_a_lie_is_reported(
    name: str, data: bytes, mime: str, mismatch: str | None
) -> None:
    found = measure(data)
    verdict = judge(name, found.head, text=found.encoding is not None, size=found.size)
    assert (verdict.mime_type, verdict.mismatch) == (mime, mismatch)


@given(st.binary(max_size=600), st.text("abcxyz.", max_size=12))
def test_nothing_makes_the_judgement_fail(data: bytes, name: str) -> None:
    found = measure(data)
    verdict = judge(name, found.head, text=found.encoding is not None, size=found.size)
    assert "/" in verdict.mime_type
    assert found.size == len(data)


@pytest.mark.parametrize("text", [b"<!-- -->", b"<!---->", b"<!-- ", b"<!-- --> ", b" \n", b"<?xml >", b"<?xml ", b"<"])
def test_markup_is_recognized_in_linear_time(text: bytes) -> None:
    # Of the processor, not of the clock. A pattern that divides a row of comments in every way never ends.
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from deep_uploads.kinds import recognize
assert recognize(({text!r} * 4096)[:4096], text=True) is None
"""
    another_process.run(script).check_returncode()


def test_markup_behind_comments_is_recognized() -> None:
    for head in (b"", b"<?xml version='1.0'?>\n", b"<!-- a -- b -->\n<!---->", b"<?xml x>\n<!-- <b> -->\n"):
        html, svg = (recognize(head + rest, text=True) for rest in (b"<!DOCTYPE html>", b"<svg "))
        assert html is not None
        assert svg is not None
        assert (html.label, svg.label) == ("an HTML page", "an SVG image")
