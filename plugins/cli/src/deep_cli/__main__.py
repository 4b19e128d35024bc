"""`python -m deep_cli` is the command `deep`."""

from __future__ import annotations

from deep_cli.main import main

if __name__ == "__main__":
    main()
