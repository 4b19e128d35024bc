"""The endpoints and the page that lists them."""

from __future__ import annotations

import re

from deep_web.api import routes

from tests.environments import REPOSITORY


def test_every_endpoint_is_on_the_page_about_the_server() -> None:
    page = (REPOSITORY / "docs" / "server.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", page.partition("| Request | Answer |")[2], re.M)
    told = {path.partition("?")[0] for row in rows for path in re.findall(r"[/…][^`\s]*", row)}
    one = "/api/sessions/{session_id}"
    served = {route.path.replace(f"{one}/", "…/").replace(one, "/api/sessions/{id}") for route in routes()}
    assert {path.replace(":path}", "}") for path in served} == told
