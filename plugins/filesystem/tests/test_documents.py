"""Documents and pictures: the model gets their content; a hostile or broken one is a message, within limits."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deep_backends import local_backend
from deep_filesystem import (
    DocumentError,
    DocumentLimits,
    create_filesystem_toolset,
    document_kind,
    document_worker,
    read_document,
)
from pydantic_ai import Agent
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.workspaces import Workspace

from deep_core import DeepAgentDeps
from tests.stubs import AnthropicStub, Call, OpenAIStub, Script, anthropic_model, openai_model

from . import written_documents as written
from .conftest import Session

pytestmark = pytest.mark.anyio

KNOWN: dict[str, tuple[Callable[[], bytes], list[str]]] = {
    "report.pdf": (
        lambda: written.pdf(["Turbines north", "Cost 12"]),
        ["page 2 of 2 ---\nCost 12"],
    ),
    "memo.docx": (
        written.word,
        ["# Quarterly report\nRevenue rose to 4,217 thalers.\n- First point\n| Region | Sum |"],
    ),
    "prices.xlsx": (
        written.workbook,
        ["sheet 1 of 2 ---\nPrices", "2\tWidget 0\t7", "20\t\t=SUM(B2:B3)", "Secret notes (hidden)"],
    ),
    "deck.pptx": (written.presentation, ["slide 2 of 2 ---\nRoadmap\nBody of Roadmap\nNotes: Speak slowly"]),
}
ENTITIES = b'<!DOCTYPE a [<!ENTITY e0 "lol lol lol lol">' + b"".join(
    b'<!ENTITY e%d "%s">' % (level, b"&e%d;" % (level - 1) * 10) for level in range(1, 12)
)
SHEET = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>%s</sheetData></worksheet>'
FAR = b'<row r="30000"><c r="A30000"><v>1</v></c><c r="XFD30000"><v>2</v></c></row>'


def in_this_process(data: bytes, **changed: Any) -> tuple[dict[str, Any], bytes]:
    """What the process would answer, without its start and its limits of memory."""
    limits = {"offset": 0, "limit": 2000, "start": 0, "chars": 40_000, "seconds": 20.0, "memory": 2**30}
    request = {"kind": document_kind(data), "pixels": 50_000_000, **limits, **changed}
    return document_worker.answer(request, data)


# -- the model gets the content ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_documents_and_pictures_reach_the_model(root: Path) -> None:
    picture = written.picture("JPEG", (30, 20))
    for name, (write, _) in KNOWN.items():
        (root / name).write_bytes(write())
    (root / "long.pdf").write_bytes(written.pdf(["x"] * 3))
    (root / "photo.jpg").write_bytes(picture)
    every = [Call("read_file", {"path": name}) for name in (*KNOWN, "photo.jpg")]
    every.insert(0, Call("read_file", {"path": "long.pdf", "offset": 1, "limit": 1}))
    for stub, model, calls in ((OpenAIStub, openai_model, every), (AnthropicStub, anthropic_model, every[-1:])):
        with stub(Script(calls, "done")) as served:
            agent = Agent(model(served), toolsets=[create_filesystem_toolset(include_execute=False)])  # type: ignore[arg-type]
            await agent.run("go", deps=DeepAgentDeps(), workspace=local_backend(root))
            sent = json.dumps(served.requests[-1]["messages"], ensure_ascii=False)
            assert (json.dumps("--- page 2 of 3 ---\nx\n[next offset=2]")[1:-1] in sent) == (calls is every)
        for call in calls[1:-1]:
            for text in KNOWN[call.args["path"]][1]:  # type: ignore[index]
                assert json.dumps(text)[1:-1] in sent
        assert base64.b64encode(picture).decode() in sent
        assert "[photo.jpg: JPEG picture, 30 x 20 pixels]" in sent


@pytest.mark.slow
async def test_a_model_without_pictures_gets_the_size_and_a_hint(root: Path) -> None:
    (root / "photo.png").write_bytes(written.picture())
    with OpenAIStub(Script(Call("read_file", {"path": "photo.png"}), "done")) as stub:
        model = openai_model(stub, profile=ModelProfile(supports_image_input=False))
        agent = Agent(model, toolsets=[create_filesystem_toolset(include_execute=False)])
        await agent.run("go", deps=DeepAgentDeps(), workspace=local_backend(root))
        (result,) = [each for each in stub.requests[-1]["messages"] if each["role"] == "tool"]
    assert result["content"].startswith("[photo.png: PNG picture, 60 x 40 pixels]\nThis model takes no pictures.")


def test_pages_lead_on_and_together_are_the_document() -> None:
    data = written.pdf([f"page{number} " + "x" * 200 for number in range(12)])
    seen, offset = "", 0
    while True:
        head, _ = in_this_process(data, offset=offset, chars=700)
        seen += head["text"]
        if not head["note"]:
            break
        offset = int(head["note"].removeprefix("next offset="))
    assert [seen.count(f"page{number} ") for number in range(12)] == [1] * 12
    assert in_this_process(data, offset=12)[0]["error"] == "has only 12 pages: offset=12 is past its end"


@pytest.mark.slow
def test_a_long_sheet_is_read_on_inside() -> None:
    data = written.workbook(3000)
    seen, start = "", 0
    while True:
        head, _ = in_this_process(data, limit=1, start=start, chars=20_000)
        seen += head["text"].removeprefix("--- sheet 1 of 2 ---\n")
        if "byte=" not in head["note"]:
            break
        start = int(head["note"].rpartition("byte=")[2])
    assert [f"\tWidget {number}\t" in seen for number in (0, 1500, 2999)] == [True] * 3
    assert seen.count("Widget 1500\t") == 1


def test_pictures_that_a_provider_would_refuse_are_made_smaller() -> None:
    from PIL import Image

    for form, media_type in (("JPEG", "image/jpeg"), ("TIFF", "image/png"), ("BMP", "image/png")):
        head, body = in_this_process(written.picture(form, (2500, 100)))
        assert head["what"] == f"{form} picture, 2500 x 100 pixels, shown at 2000 x 80"
        assert (head["media_type"], Image.open(io.BytesIO(body)).size) == (media_type, (2000, 80))
    small = written.picture("WEBP")
    assert in_this_process(small) == ({"what": "WEBP picture, 60 x 40 pixels", "media_type": "image/webp"}, small)


# -- within limits -----------------------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Callable[[], bytes], str]] = {
    "encrypted PDF": (
        lambda: written.encrypted(written.pdf(["x"]), "secret"),
        "is encrypted with a password. Ask for a copy",
    ),
    "truncated PDF": (lambda: written.pdf(["one", "two"])[:300], "is broken"),
    "truncated docx": (lambda: written.word()[:-3000], "is broken"),
    "truncated PNG": (lambda: written.picture(size=(300, 300))[:-200], "is broken"),
    "picture of 50,000 x 50,000": (lambda: written.png_header(50_000, 50_000), "is too large: 50,000 x 50,000 pixels"),
    "archive that unpacks to 300 MB": (
        lambda: written.rewritten(written.word(), "word/document.xml", bytes(300_000_000)),
        "is too large: its parts unpack to",
    ),
    "stream that unpacks to 200 MB": (
        lambda: written.pdf(["x"], stream=zlib.compress(bytes(200_000_000))),
        "is broken, or made",
    ),
    "entities in a docx": (
        lambda: written.rewritten(written.word(), "word/document.xml", ENTITIES + b"]><a>&e11;</a>"),
        "is broken, or made",
    ),
    "entities in a sheet": (
        lambda: written.rewritten(
            written.workbook(),
            "xl/worksheets/sheet1.xml",
            ENTITIES + b"]>" + SHEET % b'<row r="1"><c r="A1" t="inlineStr"><is><t>&e11;</t></is></c></row>',
        ),
        "is broken, or made",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_or_hostile_file_is_a_message(name: str) -> None:
    write, message = BROKEN[name]
    assert in_this_process(write())[0]["error"].startswith(message)


def test_a_pdf_that_opens_without_a_password_is_read() -> None:
    head, _ = in_this_process(written.encrypted(written.pdf(["Statement"]), ""))
    assert head["text"] == "--- page 1 of 1 ---\nStatement"


def test_a_sheet_that_says_it_is_huge_is_its_cells() -> None:
    said = (SHEET % FAR).replace(b"<sheetData>", b'<dimension ref="A1:XFD1048576"/><sheetData>')
    data = written.rewritten(written.workbook(), "xl/worksheets/sheet1.xml", said)
    assert "\n30000\t1\t[XFD] 2\n" in in_this_process(data)[0]["text"]


@pytest.mark.slow
async def test_time_and_memory_are_limited_and_what_is_read_at_once(root: Path) -> None:
    endless = SHEET % FAR.replace(b"30000", b"99999999999")
    slow = written.rewritten(written.workbook(), "xl/worksheets/sheet1.xml", endless)
    bomb = written.pdf(["x"], stream=zlib.compress(bytes(70_000_000)))
    good = KNOWN["report.pdf"][0]()

    async def message(data: bytes, limits: DocumentLimits) -> str:
        with pytest.raises(DocumentError) as caught:
            await read_document(data, limits)
        return str(caught.value)

    told = await asyncio.gather(
        message(slow, DocumentLimits(seconds=1.5)), message(bomb, DocumentLimits(memory=160 * 1024**2))
    )
    assert "takes longer than 1.5 s to read" in told[0]
    assert "needs more than 160 MB of memory to read" in told[1] or "its reader ended" in told[1]
    assert (await read_document(good, DocumentLimits())).what == "PDF document, 2 pages"


async def test_500_MB_are_refused_unread(session: Session) -> None:
    if type(session.workspace.backend).__name__ == "MemoryBackend":
        return
    path = Path(await session.workspace.working_dir()) / "huge.pdf"
    with path.open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(500_000_000)
    assert await session.failed("read_file", "huge.pdf") == (
        "huge.pdf is too large (500,000,000 bytes, the limit is 33,554,432). Nothing was changed. "
        "Use a command on part of it, or a smaller file."
    )


async def test_without_the_extra_it_is_a_line_to_type(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    data = KNOWN["report.pdf"][0]()
    await session.workspace.write_bytes("a.pdf", data)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert await session.failed("read_file", "a.pdf") == (
        f"a.pdf is a PDF document of {len(data)} bytes. To read such files, install the extra: "
        "pip install 'deep-filesystem[documents]'"
    )


async def test_what_only_begins_like_one_is_what_it_was(session: Session) -> None:
    for name, data in {"b.txt": b"BM is a prefix\n", "p.txt": b"%PDF-files are old\n"}.items():
        await session.workspace.write_bytes(name, data)
        assert (await session.ok("read_file", name)).startswith(f"1\t{data.decode().strip()}")
    await session.workspace.write_bytes("a.zip", b"PK\x03\x04\0\0")
    assert "a binary file" in await session.failed("read_file", "a.zip")
    await session.workspace.write_bytes("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0")
    assert "old.doc is an encrypted or old Office document" in await session.failed("read_file", "old.doc")


@pytest.mark.slow
async def test_no_text_replaces_a_document(root: Path, new_session: type[Session]) -> None:
    data = KNOWN["memo.docx"][0]()
    (root / "memo.docx").write_bytes(data)
    session = new_session(Workspace(local_backend(root)))
    await session.ok("read_file", "memo.docx")
    for tool, arguments in (("write_file", ("new text",)), ("edit_file", ("Revenue", "Loss"))):
        assert "memo.docx is a document or picture" in await session.failed(tool, "memo.docx", *arguments)
    assert (root / "memo.docx").read_bytes() == data
