"""The script `deep`: import as little as possible, so that Ctrl-C during imports prints no traceback."""

import sys


def main() -> None:
    """Import the command line and run it; exit with 130 on Ctrl-C."""
    try:
        from deep_cli.__main__ import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
