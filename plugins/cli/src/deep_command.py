"""The script `deep`. It imports nothing before it can end quietly: Ctrl-C in an import is a traceback otherwise."""

import sys


def main() -> None:
    """Import the command line and run it; Ctrl-C meanwhile is exit code 130."""
    try:
        from deep_cli.__main__ import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()
