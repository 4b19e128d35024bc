"""The commands of *A model without tool calling*, followed with stubs that speak ollama's and vLLM's formats."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from deep_universe import ToolCall

from tests import another_process
from tests.docs_pages import ROOT, blocks, readers_environment
from tests.stubs import OpenAIStub, Script, Turn
from tests.stubs.text_only_stubs import OllamaStub, VllmStub
from tests.text_models import dialects

PAGE = ROOT / "docs" / "models-without-tools.md"
CALL = dialects()[0].encode_calls([ToolCall("1", "write_file", {"path": "tides.txt", "content": "Ebb at six.\n"})])


def command(variable: str) -> list[str]:
    """The page's command for a server, without the assignment of its address."""
    lines = [line for block in blocks(PAGE) if block.language == "console" for line in block.code.splitlines()]
    (line,) = [line for line in lines if line.startswith(f"$ {variable}=")]
    assignment, *words = shlex.split(line.removeprefix("$ "))
    assert assignment.startswith(f"{variable}=http://localhost:")
    assert words[0] == "deep"
    return words[1:]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stub_type", "variable"), [(OllamaStub, "OLLAMA_BASE_URL"), (VllmStub, "VLLM_BASE_URL")], ids=["ollama", "vllm"]
)
def test_the_pages_command_works(stub_type: type[OpenAIStub], variable: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with stub_type(Script(Turn(f"I write it.\n{CALL}"), Turn("They are in tides.txt."))) as stub:
        environment = readers_environment(tmp_path) | {variable: stub.base_url}
        arguments = [*command(variable), "--approve", "allow"]
        program = Path(sys.executable).parent / "deep"
        done = another_process.run(program, *arguments, cwd=work, env=environment)
        assert done.returncode == 0, done.stderr
        assert stub.statuses == [400, 200, 200]
    assert "They are in tides.txt." in done.stdout
    assert "tool_call" not in done.stdout + done.stderr
    assert (work / "tides.txt").read_text() == "Ebb at six.\n"
