"""Documents and pictures of known content, honest and hostile, made when a test needs them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

import docx
import openpyxl
import pptx
from PIL import Image
from pypdf import PdfReader, PdfWriter

__all__ = ["encrypted", "pdf", "picture", "png_header", "presentation", "rewritten", "word", "workbook"]


def pdf(pages: Sequence[str], *, stream: bytes | None = None) -> bytes:
    """Write a PDF by hand: one line of text a page, or the same compressed stream on each."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids: list[str] = []
    for text in pages:
        content = stream or zlib.compress(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode())
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (len(objects) + 2)
        )
        objects.append(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%b\nendstream" % (len(content), content))
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    out = bytearray(b"%PDF-1.7\n")
    at: list[int] = []
    for number, body in enumerate(objects, 1):
        at.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % each for each in at)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    return bytes(out)


def encrypted(data: bytes, password: str) -> bytes:
    """Encrypt a PDF with AES, as today's programs do."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(password, "owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def word() -> bytes:
    document = docx.Document()
    document.add_heading("Quarterly report", 1)
    document.add_paragraph("Revenue rose to 4,217 thalers.")
    document.add_paragraph("First point", style="List Bullet")
    table = document.add_table(rows=2, cols=2)
    for row, cells in zip(table.rows, (("Region", "Sum"), ("North", "31")), strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def workbook(rows: int = 2) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Prices"
    sheet.append(["Item", "Price"])
    for number in range(rows):
        sheet.append([f"Widget {number}", 7 + number])
    sheet["B20"] = "=SUM(B2:B3)"
    book.create_sheet("Secret notes").append(["kept apart"])
    book["Secret notes"].sheet_state = "hidden"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def presentation() -> bytes:
    shown = pptx.Presentation()
    for title in ("Welcome", "Roadmap"):
        slide = shown.slides.add_slide(shown.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"Body of {title}"
    slide.notes_slide.notes_text_frame.text = "Speak slowly"
    out = io.BytesIO()
    shown.save(out)
    return out.getvalue()


def picture(form: str = "PNG", size: tuple[int, int] = (60, 40), color: str = "red") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, color).save(out, form)
    return out.getvalue()


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it is that large; its data unpack to zeros, a few KB of them."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(bytes(9999))) + chunk(b"IEND", b"")
    )


def rewritten(data: bytes, part: str, content: bytes) -> bytes:
    """Replace one part of a docx, xlsx or pptx."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, content if name == part else old.read(name))
    return out.getvalue()
