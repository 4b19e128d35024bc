"""Give each of two tenants in one process its own kernel, with its own plugins, options and policy.

python examples/per_tenant_kernels.py
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from custom_plugin import Weather
from scripted import model

from deep_core import Kernel, create_default_deps

TENANTS: dict[str, dict[str, Any]] = {
    "acme": {"plugins": {"allow": ["backends"], "weather": {"options": {"unit": "celsius"}}}},
    "globex": {
        "agent": {"tool_filter": "~network"},
        "plugins": {"allow": ["backends", "filesystem"], "weather": {"options": {"unit": "fahrenheit"}}},
    },
}
"""Configuration as a mapping, which a service would read from its table of tenants. It is trusted like code."""


def main() -> None:
    """Ask both tenants' agents for the weather."""
    with ExitStack() as stack:
        for tenant, config in TENANTS.items():
            kernel = stack.enter_context(Kernel(plugins=[Weather()], config=config))
            agent = kernel.create_agent(model(("forecast", {"city": "Oslo"}), "That is what I know."))
            tools = sorted(tool.name for tool in kernel.explain(agent).tools)
            result = agent.run_sync("How is the weather?", deps=create_default_deps(kernel=kernel))
            answers = [
                part.content for m in result.all_messages() for part in m.parts if part.part_kind == "tool-return"
            ]
            print(f"{tenant}: plugins {', '.join(kernel.active)}; tools {', '.join(tools)}")
            print(f"  the model called forecast and got: {answers[0]}")


if __name__ == "__main__":
    main()
