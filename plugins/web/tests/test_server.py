"""The interface of `deep web` over real sockets. Only the model is scripted."""

from __future__ import annotations

import httpx

from plugins.web.tests.served import SECONDS, Served


def test_the_page_and_its_interface_need_the_token(served: Served) -> None:
    with httpx.Client(base_url=served.url, trust_env=False, timeout=SECONDS) as client:
        assert client.get("/api/info").status_code == 401
        assert client.get(f"/?token={served.token}").status_code == 303
        info = client.get("/api/info").json()
    assert (info["model"], info["models"]) == ("script:one", ["script:one", "script:other"])
    assert info["folder"] == str(served.folder.resolve())
