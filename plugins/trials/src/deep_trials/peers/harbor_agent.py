"""deep as an agent that Harbor installs into its containers. `deep eval harbor` copies this file beside your jobs.

Harbor imports it, in an environment of its own that does not have deep: nothing of deep is imported here.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

from harbor.agents.installed.base import BaseInstalledAgent, with_prompt_template

__all__ = ["Deep"]

PLACE = "/opt/deep"
REPORT = "deep.json"


class Deep(BaseInstalledAgent):
    """The agent of all plugins of deep, by `deep run`. The container is the sandbox: no call asks.

    Args:
        wheels: the folder with deep's wheels, `make wheels`; "" installs from pip's index.
    """

    place = PLACE

    def __init__(self, *args: Any, wheels: str = "dist", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._wheels = wheels

    @staticmethod
    def name() -> str:
        """Return `deep`."""
        return "deep"

    async def install(self, environment: Any) -> None:
        """Make an environment for deep. The image needs Python 3.11 or newer."""
        found = ""
        if self._wheels:
            await environment.upload_dir(Path(self._wheels), f"{self.place}-wheels")
            found = f"--find-links {self.place}-wheels "
        pip = f"{self.place}/bin/pip install --quiet {found}deep-cli deep-everything"
        await self.exec_as_root(environment, f"python3 -m venv {self.place} && {pip}")

    @with_prompt_template
    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """Let the agent work where the task has its files."""
        model = (self.model_name or "").replace("/", ":", 1)
        provider = model.partition(":")[0].replace("-", "_").upper()
        names = (f"{provider}_API_KEY", f"{provider}_BASE_URL")
        keys = {name: os.environ[name] for name in names if name in os.environ}
        words = [
            f"{self.place}/bin/deep",
            "run",
            "-m",
            model,
            "--approve",
            "allow",
            "--output",
            "json",
            "--",
            instruction,
        ]
        report = shlex.quote(str(self.environment_logs_dir / REPORT))
        await self.exec_as_agent(environment, f"{shlex.join(words)} > {report} </dev/null", env=keys)

    def populate_context_post_run(self, context: Any) -> None:
        """Note the tokens that `deep run` reports."""
        report = self.logs_dir / REPORT
        if not report.is_file() or not report.stat().st_size:
            return
        said: dict[str, Any] = json.loads(report.read_bytes())
        context.n_input_tokens, context.n_output_tokens = said["tokens"]["input"], said["tokens"]["output"]
        context.metadata = {"status": said["status"], "requests": said["requests"]}
