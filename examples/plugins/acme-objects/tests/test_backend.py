"""Check the backend by the rules for backends, and let an agent work in it."""

import asyncio

import pytest
from deep_core import create_default_deps
from pydantic_ai.workspaces import WorkspaceUnavailableError
from pytest_deep import BackendConformance, call

from acme_objects.backend import ObjectWorkspace
from acme_objects.options import ObjectsOptions
from acme_objects.store import ObjectStore


class TestBackend(BackendConformance):
    @pytest.fixture
    def backend(self, url):
        return ObjectWorkspace(ObjectStore(ObjectsOptions(url=url)), "session")


def test_an_agent_finds_its_files_in_its_own_session_only(deep_kernel, scripted_model, url, server):
    kernel = deep_kernel("objects", "filesystem")
    write = call("write_file", path="notes.txt", content="Buy bread.")
    read = call("read_file", path="notes.txt")
    model = scripted_model(write, read, "Written.", read, "Not here.")
    agent = kernel.create_agent(model, backend="objects", objects={"url": url})
    for _ in range(2):
        asyncio.run(agent.run("Take a note.", deps=create_default_deps(kernel=kernel)))
    read_back, elsewhere = model.requests[2].results, model.requests[4].results
    assert "Buy bread." in str(read_back[0].content)
    assert "Buy bread." not in str(elsewhere[0].content)
    assert [data for key, data in server.objects.items() if key.endswith("/workspace/notes.txt")] == [b"Buy bread."]


def test_a_store_that_is_away_is_an_unavailable_workspace():
    workspace = ObjectWorkspace(ObjectStore(ObjectsOptions(url="http://127.0.0.1:1/bucket")), "session")
    with pytest.raises(WorkspaceUnavailableError, match="does not answer"):
        asyncio.run(workspace.read_bytes("/workspace/a"))
