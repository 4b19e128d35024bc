"""The command `deep`, and `python -m deep_cli`: answer without importing click where no parsing is needed."""

from __future__ import annotations

import os
import sys

from .collector import pause


def main() -> None:
    """Run the command line and exit, as `deep_cli.main.main` does."""
    try:
        pause()
        _run()
    except KeyboardInterrupt:  # during an import; later ones are reported
        sys.exit(130)


def _run() -> None:
    text = _answer(sys.argv[1:])
    if text is None:
        from .main import main as run

        run()
        return
    try:
        print(text, flush=True)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # `deep plugins list | head -1` is no error
            print(f"deep: cannot write: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # takes the rest of the buffer
        sys.exit(1)


def _answer(typed: list[str]) -> str | None:
    """Return the answer if it needs no parsing, else None."""
    if typed == ["--version"]:
        from deep_core import __version__ as core_version

        from . import __version__

        return f"deep {__version__} (deep-agent-core {core_version})"
    if typed in (["plugins", "list"], ["plugins", "list", "--json"]):
        from .plugins.listing import plugin_list

        return plugin_list(json=len(typed) > 2)
    return None


if __name__ == "__main__":
    main()
