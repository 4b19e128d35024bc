"""Check what the redactor hides from the model."""

import asyncio

from deep_core import hookimpl
from pydantic_ai import FunctionToolset
from pytest_deep import call


class Phonebook:
    """A plugin with a tool that returns an address."""

    @hookimpl
    def deep_toolsets(self, context):
        def find(name: str) -> dict[str, list[str]]:
            """Find a person."""
            return {"addresses": [f"{name}@example.org"]}

        return [FunctionToolset([find], id="phonebook")]


def test_the_model_sees_no_address_from_the_user_or_a_tool(deep_kernel, scripted_model, deep_deps):
    kernel = deep_kernel("redactor", Phonebook())
    model = scripted_model(call("find", name="ann"), "Found.")
    result = asyncio.run(kernel.create_agent(model).run("Is bob@example.org in there?", deps=deep_deps(kernel)))
    assert result.output == "Found."
    assert "Is [hidden] in there?" in model.requests[0].text
    assert [part.content for part in model.requests[1].results] == [{"addresses": ["[hidden]"]}]


def test_the_option_sets_what_to_hide(deep_kernel, scripted_model, deep_deps):
    kernel = deep_kernel("redactor")
    model = scripted_model("Yes.")
    agent = kernel.create_agent(model, redactor={"hide": r"\bK-\d+"})
    asyncio.run(agent.run("Is K-42 of bob@example.org valid?", deps=deep_deps(kernel)))
    assert "Is [hidden] of bob@example.org valid?" in model.requests[0].text
