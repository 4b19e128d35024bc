"""What the page "Publishing" shows of a list of plugins is what is shown."""

from __future__ import annotations

import os
from dataclasses import replace

from tests.console_pages import matches, typed
from tests.docs_pages import blocks
from tests.environments import REPOSITORY, Distribution, Environment, plugin


def test_the_list_of_the_page_is_what_users_see(environment: Environment) -> None:
    environment.install(
        *(Distribution.of_project(REPOSITORY / "plugins" / name) for name in ("cli", "sessions")),
        replace(
            plugin("forecast", requires=["deep-agent-core>=0.1,<1", "deep-atlas>=1,<2"]),
            name="deep-forecast",
            version="0.4.0",
        ),
        replace(plugin("weather", requires=["deep-agent-core>=9,<10"]), name="deep-weather", version="2.0.0"),
    )
    page = blocks(REPOSITORY / "docs" / "publishing.md")
    (shown,) = (one for block in page if block.language == "console" for one in typed(block) if one.output)
    assert shown.command == "deep plugins list"
    environment.python.with_name("pip").touch(0o755)  # activated, with a pip of its own
    activated = {"PATH": f"{environment.python.parent}{os.pathsep}{os.environ['PATH']}"}
    printed = environment.run(environment.python, "-P", "-m", "deep_cli", "plugins", "list", env=activated).ok().out
    assert matches(shown.output or (), printed), printed
