"""The list of sessions: titles, forks, deletion, search, and marks of what happens in other sessions and processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from deep_sessions import create, folder_store, load_session, open_store, rename, title_of
from pydantic_ai.messages import ModelResponse
from websockets.exceptions import ConnectionClosed

from plugins.web.tests.gates import Gate
from plugins.web.tests.pages import working

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


@pytest.mark.slow
async def test_a_session_is_renamed_also_while_it_runs_and_every_interface_shows_it(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        user = await running.user()
        address = f"/api/sessions/{page.id}"
        await page.ask("say hello")
        assert (await user.http.get(address)).json()["title"] == "say hello"
        await user.http.patch(address, json={"title": "  Greetings\n of mine "})
        await page.until(lambda message: message.get("title") == "Greetings of mine")
        assert await title_of(running.site.store, page.id) == "Greetings of mine"
        await page.send("hold it")
        await page.hears("holding ")
        renamed = await user.http.patch(address, json={"title": "Another"})
        assert (renamed.status_code, renamed.json()["title"]) == (200, "Another")
        gate.go_on.set()
        await page.settled()
        assert page.state["title"] == "Another"
        await user.http.patch(address, json={"title": ""})  # the first message again
        assert (await user.listed())[0]["title"] == "say hello"
    async with working(tmp_path, gate.model) as running:
        user = await running.user()
        assert (await user.listed())[0]["title"] == "say hello"


@pytest.mark.slow
async def test_a_fork_continues_on_its_own(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        user = await running.user()
        await page.ask("say one")
        seq = (await load_session(running.site.store, page.id)).seq
        await page.ask("say two")
        forked = await user.http.post(f"/api/sessions/{page.id}/fork")
        assert forked.status_code == 201, forked.text
        earlier = await user.http.post(f"/api/sessions/{page.id}/fork", json={"at": seq})
        missing = await user.http.post(f"/api/sessions/{page.id}/fork", json={"at": 10_000})
        assert missing.status_code == 422
        assert "no entry 10000" in missing.json()["error"]
        for copy, said in ((forked.json()["id"], ["one", "two"]), (earlier.json()["id"], ["one"])):
            history = await running.site.current(copy).history(copy)
            assert [m.text for m in history if isinstance(m, ModelResponse)] == said
            async with user.page(copy) as other:
                await other.ask("say three")
                assert other.last == "three"
        assert len(await user.listed()) == 3
        assert [text for role, text in page.texts if role == "assistant"] == ["one", "two"]


@pytest.mark.slow
async def test_a_session_is_deleted_while_it_runs(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        user = await running.user()
        await page.send("hold for ever")
        await page.hears("holding ")
        assert (await user.http.delete(f"/api/sessions/{page.id}")).status_code == 204
        with pytest.raises(ConnectionClosed) as closed:
            await page.until(lambda message: False)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4404
        assert (await user.http.get(f"/api/sessions/{page.id}")).status_code == 404
        assert await user.listed() == []
        assert running.folder.exists()  # the folder is not the session's


@pytest.mark.slow
async def test_sessions_are_found_by_their_titles(tmp_path: Path) -> None:
    async with working(tmp_path) as running:
        user = await running.user()
        for text in ("say apples", "say Pears"):
            async with user.page(await user.create()) as page:
                await page.ask(text)

        async def titles(search: str) -> list[str]:
            found = await user.http.get("/api/sessions", params={"search": search})
            return [row["title"] for row in found.json()]

        assert await titles("") == ["say Pears", "say apples"]  # the last changed first
        assert await titles("pear") == ["say Pears"]
        assert await titles("plums") == []


@pytest.mark.slow
async def test_a_page_hears_of_other_sessions_and_of_other_processes(tmp_path: Path) -> None:
    gate = Gate()
    async with working(tmp_path, gate.model) as running, running.page() as page:
        user = await running.user()

        async def rings(expected: dict[str, str]) -> None:
            while {row["id"]: row["status"] for row in await user.listed()} != expected:
                await page.until(lambda message: message["type"] == "sessions")

        other = await user.create()
        await rings({page.id: "idle", other: "idle"})
        await user.send(other, "hold it")
        await rings({page.id: "idle", other: "running"})
        gate.go_on.set()
        await rings({page.id: "idle", other: "idle"})
        await user.send(other, "write notes.txt: red")
        await rings({page.id: "idle", other: "waiting"})
        store = open_store(f"sqlite:///{tmp_path / 'sessions.db'}")  # as another process has it
        elsewhere = await folder_store(store, running.site.folder)
        new = running.site.new_id()
        await create(elsewhere, new, [])
        await rings({page.id: "idle", other: "waiting", new: "idle"})
        await rename(elsewhere, new, "From elsewhere")
        while "From elsewhere" not in {row["title"] for row in await user.listed()}:
            await page.until(lambda message: message["type"] == "sessions")
        await create(store, "another-program", [])  # no conversation of this folder
        assert len(await user.listed()) == 3
        await elsewhere.aclose()
