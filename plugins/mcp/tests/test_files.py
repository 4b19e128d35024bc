"""Files in what a server answers: documents become text, pictures are checked."""

from __future__ import annotations

import io
from collections.abc import Callable

import docx
import pytest
from deep_mcp.results import read_files
from PIL import Image
from pydantic_ai.messages import BinaryContent, ToolReturnPart

from deep_core import Kernel, create_default_deps

from .conftest import Caller, Servers

pytestmark = pytest.mark.anyio


def memo(text: str) -> bytes:
    document, out = docx.Document(), io.BytesIO()
    document.add_paragraph(text)
    document.save(out)
    return out.getvalue()


def picture(width: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, 10), "blue").save(out, "PNG")
    return out.getvalue()


@pytest.mark.slow
async def test_documents_become_text_and_pictures_are_checked(
    make_kernel: Callable[..., Kernel], servers: Servers
) -> None:
    folder = servers.state("harbor")
    files = {"memo.docx": memo("Tide at noon"), "a.png": picture(30), "wide.png": picture(3000)}
    files["cut.png"] = files["wide.png"][: len(files["wide.png"]) // 2]
    for name, data in files.items():
        (folder / name).write_bytes(data)
    kernel = make_kernel({"harbor": servers("harbor")}, settings={"require_approval": False})
    caller = Caller(*(("harbor_look", {"text": name}) for name in files))
    agent = kernel.create_agent(caller.model(), backend="memory")
    result = await agent.run("go", deps=create_default_deps(kernel=kernel))
    parts = [
        part.content for message in result.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)
    ]
    text, small, wide, cut = parts
    assert text == "[Word document]\nTide at noon"
    assert small == BinaryContent(files["a.png"], media_type="image/png")
    assert isinstance(wide, BinaryContent)
    assert Image.open(io.BytesIO(wide.data)).size == (2000, 7)
    assert str(cut).startswith("[left out: this file is a picture that cannot be read: it is broken")


async def test_without_the_extra_pictures_stay_and_documents_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    image, document = BinaryContent(picture(30), media_type="image/png"), BinaryContent(memo("x"), media_type="a/b")
    shown, text = await read_files([image, document], 1000)
    assert shown is image
    assert text.startswith("[left out: this file is a Word document of")
    assert text.endswith("pip install 'deep-filesystem[documents]']")
