"""The hook that this plugin owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookspec

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection

__all__ = ["deep_web_owner"]


@hookspec(policy="first", item="builtins:str")
def deep_web_owner(connection: HTTPConnection) -> str | None:
    """Who a request, or a page that connects, is from: the owner of its sessions.

    Called:
        For each request below `/api`, and each socket, of an application of `deep_web.create_app`.

    Result:
        The first name wins; such a user sees the sessions of that name, and no others. If all plugins return None, or
        raise, the answer is 401. Where no plugin has this hook, the token of `deep web` stands.

    Example:
        from deep_core import hookimpl

        @hookimpl(of="web")
        def deep_web_owner(connection):
            return {"Bearer s3cret-of-ann": "ann"}.get(connection.headers.get("authorization", ""))
    """
