"""Check which tool calls are denied."""

import asyncio

import pytest
from pydantic_ai import Tool
from pytest_deep import call

KEY = "-----BEGIN PRIVATE KEY-----"
DENIED = "Denied: the arguments contain confidential data"


def answer(kernel, scripted_model, deep_deps, tag, text, **options):
    def send(text: str) -> str:
        """Send a text."""
        return "sent"

    model = scripted_model(call("send", text=text), "Done.")
    agent = kernel.create_agent(model, tools=[Tool(send, metadata={"tags": [tag]})], **options)
    asyncio.run(agent.run("Send it.", deps=deep_deps(kernel)))
    (result,) = model.requests[1].results
    return result.content


@pytest.mark.parametrize(
    ("tag", "text", "expected"),
    [("network", KEY, DENIED), ("network", "Hello", "sent"), ("read", KEY, "sent")],
)
def test_confidential_data_is_not_sent(deep_kernel, scripted_model, deep_deps, tag, text, expected):
    kernel = deep_kernel("redactor")
    assert answer(kernel, scripted_model, deep_deps, tag, text) == expected


def test_the_option_sets_what_is_confidential(deep_kernel, scripted_model, deep_deps):
    kernel = deep_kernel("redactor")
    options = {"redactor": {"confidential": r"\bK-\d+"}}
    assert answer(kernel, scripted_model, deep_deps, "network", "K-42", **options) == DENIED
    assert answer(kernel, scripted_model, deep_deps, "network", KEY, **options) == "sent"
