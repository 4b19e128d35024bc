"""A data agent reads an uploaded spreadsheet and computes in a sandbox, without approvals.

python examples/data_agent.py
"""

from __future__ import annotations

import asyncio
import io
import tempfile
from pathlib import Path

from deep_backends import sandbox_backend
from openpyxl import Workbook
from scripted import model

from deep_core import create_deep_agent, create_default_deps

ADD = "print('sum', sum(int(line.split(',')[1]) for line in open('sales.csv')))\n"


async def main(folder: Path) -> None:
    """Upload a workbook. The agent reads it, writes a program and runs it; nothing gets out of the sandbox."""
    sales, data = Workbook(), io.BytesIO()
    for row in ("month", "amount"), ("january", 120), ("february", 80):
        sales.worksheets[0].append(row)
    sales.save(data)

    work, outside = folder / "work", folder / "outside.txt"
    work.mkdir()
    answers = model(
        ("read_file", {"path": "uploads/sales.xlsx"}),
        [
            ("write_file", {"path": "sales.csv", "content": "january,120\nfebruary,80\n"}),
            ("write_file", {"path": "add.py", "content": ADD}),
        ],
        ("execute", {"command": f"python3 add.py | tee sum.txt; echo 200 > {outside}"}),
        "We sold for 200.",
    )
    agent = create_deep_agent(answers, interrupt_on={"execute": False})  # the sandbox confines commands: no need to ask
    deps = create_default_deps(backend=sandbox_backend(work))
    await deps.upload_file("sales.xlsx", data.getvalue(), agent=agent)
    result = await agent.run("For how much did we sell?", deps=deps)
    for part in (part for message in result.all_messages() for part in message.parts):
        if part.part_kind == "tool-return":
            print(f"{part.tool_name}: {part.content}")
    print(result.output)
    print("in the sandbox:", (work / "sum.txt").read_text().strip(), "| outside:", outside.exists())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
