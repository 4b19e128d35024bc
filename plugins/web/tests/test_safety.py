"""Who gets in, from where, and what the page may do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from deep_web.api import routes
from deep_web.serve import token_of
from websockets.exceptions import ConnectionClosed, InvalidStatus

from deep_core import hookimpl
from plugins.web.tests.pages import SECONDS, User, working
from plugins.web.tests.served import TOKEN

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]


async def closing_code(user: User, session_id: str) -> int:
    async with user.connection(session_id) as connection:
        with pytest.raises(ConnectionClosed) as closed:
            await connection.recv()
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


@pytest.mark.slow
async def test_a_token_in_the_address_becomes_a_cookie(tmp_path: Path) -> None:
    async with working(tmp_path) as running:
        async with httpx.AsyncClient(base_url=running.base, trust_env=False, timeout=SECONDS) as client:
            for wrong in ("", "?token=", f"?token={TOKEN}x", "?token=%00"):
                await client.get(f"/{wrong}")
                assert (await client.get("/api/info")).status_code == 401, wrong
            admitted = await client.get(f"/?token={TOKEN}")
            assert (admitted.status_code, admitted.headers["location"]) == (303, "/")  # not in the history
            for mark in ("HttpOnly", "SameSite=strict"):
                assert mark in admitted.headers["set-cookie"]
            assert (await client.get("/api/info")).status_code == 200
        for given in (f"Bearer {TOKEN}x", "Bearer", TOKEN, f"Basic {TOKEN}"):
            async with httpx.AsyncClient(base_url=running.base, trust_env=False, timeout=SECONDS) as client:
                assert (await client.get("/api/info", headers={"Authorization": given})).status_code == 401, given


@pytest.mark.slow
async def test_who_has_no_token_gets_nothing_and_changes_nothing(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        stranger = User(running.base)
        async with stranger.http:
            named = {"session_id": page.id, "path": "a", "call_id": "a", "name": "c1"}
            asked = [
                (method, re.sub(r"\{(\w+)(:path)?\}", lambda part: named[part[1]], route.path))
                for route in routes()
                for method in sorted(route.methods or ())
            ]
            for method, path in asked:
                answer = await stranger.http.request(method, path)
                assert answer.status_code == 401, (method, path)
                assert method == "HEAD" or [*answer.json()] == ["error"], (method, path)
            assert await closing_code(stranger, page.id) == 4401
        assert await closing_code(await running.user(), "unknown") == 4404


async def test_an_application_without_a_token_and_a_hook_refuses_everyone(tmp_path: Path) -> None:
    async with working(tmp_path, token=None) as running:
        user = await running.user()
        assert (await user.http.get("/api/info")).status_code == 401
        assert (await user.http.get("/api/info", headers={"Authorization": "Bearer None"})).status_code == 401


class Login:
    """Users by a header."""

    @hookimpl(of="web")
    def deep_web_owner(self, connection: httpx.Request) -> str | None:
        if "x-broken" in connection.headers:
            raise ValueError("the directory of users is away")
        return connection.headers.get("x-user")


@pytest.mark.slow
async def test_a_plugin_says_who_a_request_is_from_and_then_the_token_counts_for_nothing(tmp_path: Path) -> None:
    async with working(tmp_path, plugins=[Login()]) as running:
        assert (await (await running.user()).http.get("/api/sessions")).status_code == 401
        ann, ben, broken = (User(running.base, {name: who}) for name, who in USERS)
        async with ann.http, ben.http, broken.http:
            session_id = await ann.create()
            assert [row["id"] for row in await ann.listed()] == [session_id]
            assert await ben.listed() == []
            assert (await ben.http.get(f"/api/sessions/{session_id}")).status_code == 404
            assert await closing_code(ben, session_id) == 4404
            assert (await broken.http.get("/api/sessions")).status_code == 401
            async with ann.page(session_id) as page:
                await page.ask("say hello")
                assert page.last == "hello"


USERS = (("x-user", "ann"), ("x-user", "ben"), ("x-broken", "yes"))


@pytest.mark.slow
async def test_pages_of_other_sites_and_other_names_of_this_host_are_refused(tmp_path: Path) -> None:
    async with working(tmp_path) as running, running.page() as page:
        user = await running.user()
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
            for method, path in (("POST", "/api/sessions"), ("DELETE", f"/api/sessions/{page.id}")):
                refused = await user.http.request(method, path, headers={"Origin": origin})
                assert refused.status_code == 403, origin
            with pytest.raises(InvalidStatus) as denied:
                async with user.connection(page.id, Origin=origin):
                    pass
            assert denied.value.response.status_code == 403
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
            rebound = await user.http.get("/api/sessions", headers={"Host": host})
            assert rebound.status_code == 400, host
            assert page.id not in rebound.text
        assert (await user.http.post("/api/sessions", headers={"Origin": running.base})).status_code == 201


async def test_the_page_may_run_its_own_scripts_only(tmp_path: Path) -> None:
    async with working(tmp_path) as running:
        user = await running.user()
        for path in ("/", "/static/app.js", "/api/info", "/nothing"):
            answer = await user.http.get(path)
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
        assert (await user.http.head("/")).status_code == 200
        assert "http" not in (await user.http.get("/")).text.replace("http-equiv", "")  # nothing from another host
        for way in ("..%2fapp.py", "../app.py", "..%2f..%2fpy.typed"):
            assert (await user.http.get(f"/static/{way}")).status_code == 404


def test_a_folder_keeps_its_token_which_only_the_user_reads(tmp_path: Path, anyio_backend: str) -> None:
    one, two = token_of("/one", tmp_path), token_of("/two", tmp_path)
    assert one != two
    assert len(one) >= 32
    assert token_of("/one", tmp_path) == one
    files = sorted((tmp_path / "tokens").iterdir())
    assert [path.stat().st_mode & 0o077 for path in files] == [0, 0]
    files[0].write_text("short")
    with pytest.raises(ValueError, match="delete it"):
        [token_of(folder, tmp_path) for folder in ("/one", "/two")]


def test_two_applications_of_one_host_do_not_share_a_cookie(anyio_backend: str) -> None:
    from deep_web.guard import Owners

    assert Owners("one").cookie != Owners("two").cookie


@pytest.mark.slow
def test_other_commands_import_nothing_of_the_server(anyio_backend: str) -> None:
    program = """
import sys
import deep_web
from deep_core import Kernel
with Kernel() as kernel:
    assert "web" in kernel.active
    kernel.create_agent("test")
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"starlette", "uvicorn", "websockets"}))
"""
    # Not a fork of the tests' own program, which has imported servers.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
