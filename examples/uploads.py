"""Upload files: the plugin stores them byte for byte, measures them, and tells the model.

python examples/uploads.py
"""

from __future__ import annotations

import asyncio

from deep_uploads import UploadLimitError, UploadsOptions, run_with_files
from scripted import model

from deep_core import create_deep_agent, create_default_deps

SALES = "month,amount\njanuary,120\nfebruary,80\n".encode("utf-16")


async def main() -> None:
    """Upload two files with the question, a third later, and one that is too large."""
    agent = create_deep_agent(
        model(("grep", {"pattern": "Invoice", "path": "uploads"}), "January was best, and there is one invoice."),
        backend="memory",
        interrupt_on=False,
        plugins=[UploadsOptions(max_file_bytes=1_000)],
    )
    deps = create_default_deps()
    files = [("sales.csv", SALES), ("../invoice 7.txt", b"Invoice 7: 129.50\n")]
    print(await run_with_files(agent, "Which month was best? Any invoices?", deps, files))

    await deps.upload_file("photo.png", b"%PDF-1.7\n")  # the same, without a run
    try:
        await deps.upload_file("video.mp4", bytes(2_000), agent=agent)
    except UploadLimitError as error:
        print("refused:", error)
    for upload in deps.uploads.values():
        print(f"{upload.path}: {upload.size} bytes, {upload.line_count} lines, {upload.mime_type}, {upload.encoding}")
        if upload.mismatch:
            print("  but", upload.mismatch)


if __name__ == "__main__":
    asyncio.run(main())
