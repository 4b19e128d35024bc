"""The command `deep`, and `python -m deep_cli`: what needs no parsing is answered before click is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit, as `deep_cli.main.main` does."""
    if sys.argv[1:] == ["--version"]:
        from deep_cli import __version__
        from deep_core import __version__ as core_version

        print(f"deep {__version__} (deep-core {core_version})")
        return
    from deep_cli.main import main as run

    run()


if __name__ == "__main__":
    main()
