"""Read the configured services, each by itself: a wrong one costs itself, and is reported once."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from deep_core import PluginError, PluginWarning, ToolExpression
from deep_core.plugin_api import NAME, Incident, as_expression, suggest

from .options import ApiSettings
from .problems import DocumentError

if TYPE_CHECKING:
    from deep_core import AgentContext

__all__ = ["Api", "is_address", "read_apis", "report"]

PLUGIN = "openapi"


@dataclass(frozen=True)
class Api:
    """One service that can be used.

    Attributes:
        name: the beginning of its tools' names.
        settings: as configured.
        offered: the operations that the agent has; None for all.
    """

    name: str
    settings: ApiSettings
    offered: ToolExpression | None

    @cached_property
    def identity(self) -> str:
        """A digest of what decides who answers, and with which right."""
        s = self.settings
        return sha256(json.dumps([self.name, s.spec, s.base_url, s.auth_env, s.auth]).encode()).hexdigest()[:16]


def read_apis(context: AgentContext, given: Mapping[str, Any]) -> list[Api]:
    """Return the services that can be used, and report the others.

    Raises:
        PluginError: a service cannot be used, and the kernel is strict.
    """
    found: list[Api] = []
    for name, entry in given.items():
        try:
            api = _read(name, entry)
        except DocumentError as error:
            report(context, name, str(error))
        else:
            found += [api] if api.settings.enabled else []
    return found


def report(context: AgentContext, name: str, why: str) -> None:
    """Say once for all agents of the kernel that they go without a service.

    Raises:
        PluginError: the kernel is strict.
    """
    if context.kernel.strict:
        raise PluginError(f"plugin {context.kernel.label(PLUGIN)}: service {name}: {why}", plugin=PLUGIN)
    # The doctor shows what stands behind the last semicolon as the way out.
    correct = f"correct plugins.openapi.options.apis.{name}"
    incident = Incident(PLUGIN, f"service {name}", f"{why[:1_000]}; {correct}", "the agent goes without it")
    if incident not in context.kernel.latest:
        context.kernel.latest.append(incident)
        warnings.warn(f"service {name}: {why}; the agent goes without it", PluginWarning, stacklevel=2)


def is_address(spec: str) -> bool:
    """Whether a document is at an address, not in a file."""
    return spec.partition("://")[0].lower() in ("http", "https")


def _read(name: str, entry: Any) -> Api:
    if not NAME.fullmatch(name):
        raise DocumentError("a name has lower-case letters, digits and _ (at most 40), a letter first")
    if not isinstance(entry, Mapping):
        raise DocumentError('a service is a table: { spec = "FILE", base_url = "https://…" }')
    try:
        settings = ApiSettings.model_validate(entry)
    except ValidationError as error:
        raise DocumentError(_explained(error)) from None
    _check_address("base_url", settings.base_url, secret=settings.auth_env is not None)
    if is_address(settings.spec):
        _check_address("spec", settings.spec, secret=True)
    try:
        offered = None if settings.tools is None else as_expression(settings.tools)
    except ValueError as error:
        raise DocumentError(f"tools: {error}") from error
    return Api(name, settings, offered)


def _explained(error: ValidationError) -> str:
    # A misspelt key comes first: the key that is then missing is the same mistake.
    found = error.errors(include_url=False, include_input=False)
    first = min(found, key=lambda each: each["type"] != "extra_forbidden")
    path, message = ".".join(str(part) for part in first["loc"]), first["msg"]
    if first["type"] == "extra_forbidden":
        message = f"unknown key.{suggest(path, ApiSettings.model_fields)} Known: {', '.join(ApiSettings.model_fields)}"
    return f"{path}: {message}"


def _check_address(key: str, address: str, *, secret: bool) -> None:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise DocumentError(f"{key}: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise DocumentError(f"{key}: an address is https://host/path")
    if parts.username is not None or (key == "base_url" and (parts.query or parts.fragment)):
        raise DocumentError(f"{key}: an address has no password, query or fragment; auth_env names the credential")
    # Anyone between would read the credential, or write the document.
    if secret and parts.scheme == "http" and not _is_loopback(host):
        raise DocumentError(f"{key}: http is for loopback only; write https://{host}")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
