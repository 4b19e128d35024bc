"""The hooks that this plugin owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from deep_core import hookspec

if TYPE_CHECKING:
    from deep_core import PluginContext

    from .slash import ChatCommand
    from .store import SessionStore

__all__ = ["deep_chat_commands", "deep_session_deleted", "deep_session_stores"]


@hookspec(policy="collect", item="collections.abc:Callable", mapping=True)
def deep_session_stores(context: PluginContext) -> Mapping[str, Callable[[str], SessionStore]]:  # pyright: ignore[reportReturnType]
    """Add stores of sessions: the scheme of a URL -> a function that opens the store.

    Called:
        Each time `open_store` opens a store.

    Result:
        `open_store("redis://…")` calls the function of `redis` with the whole URL. Two plugins with one scheme are an
        error that names both. A plugin that raises, or returns a wrong type, is left out.

    Example:
        from deep_core import hookimpl

        @hookimpl(of="sessions")
        def deep_session_stores(context):
            def open_redis(url):
                from acme_redis import RedisStore

                return RedisStore(url)

            return {"redis": open_redis}
    """


@hookspec(policy="notify")
def deep_session_deleted(session_id: str, context: PluginContext) -> None:
    """Notification: a session was deleted. Erase what you keep of it. May be async.

    Called:
        After the store has erased the session.

    Result:
        Ignored. An exception is an incident of the plugin; the others are called all the same.

    Example:
        import shutil
        from deep_core import hookimpl

        @hookimpl(of="sessions")
        def deep_session_deleted(session_id, context):
            shutil.rmtree(context.session_dir(session_id))
    """


@hookspec(policy="collect", item="deep_sessions:ChatCommand")
def deep_chat_commands(context: PluginContext) -> Sequence[ChatCommand]:  # pyright: ignore[reportReturnType]
    """Add commands to chats: messages that a person sends by name.

    Called:
        Each time an interface lists the commands.

    Result:
        For `/weather:report Oslo`, `deep chat` sends what the command's `render("Oslo")` returns, as the person's
        message. Two plugins with one name are an error that names both. A plugin that raises, or returns a wrong type,
        is left out.

    Example:
        from deep_core import hookimpl

        @hookimpl(of="sessions")
        def deep_chat_commands(context):
            from deep_sessions import ChatCommand

            return [ChatCommand("weather:report", "Write a report of the weather.", "Report the weather of {}.".format)]
    """
