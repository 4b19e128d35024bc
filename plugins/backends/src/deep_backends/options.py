"""The options of `[plugins.backends]`."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from deep_core import PluginOptions

from .limits import MAX_OUTPUT_BYTES, MAX_READ_BYTES

__all__ = ["BackendName", "BackendsOptions"]

BackendName = Literal["memory", "local", "docker"]

# Never from a project's file, which the model may have written.
_TRUSTED: dict[str, JsonValue] = {"trusted": True}


class BackendsOptions(PluginOptions):
    """Options of the backends chosen by name: `memory`, `local`, `composite` and `docker`."""

    root: Annotated[Path | None, Field(json_schema_extra=_TRUSTED)] = None
    """The directory of `local`; by default the current one when the session's backend is created."""

    env: Annotated[tuple[str, ...], Field(json_schema_extra=_TRUSTED)] = ()
    """Names of host variables that commands see, in `local` (besides the harmless ones) and in `docker`."""

    protected: tuple[Path, ...] = ()
    """Further files and directories that `local` never writes; reading them is fine."""

    max_read_bytes: Annotated[int, Field(ge=1)] = MAX_READ_BYTES
    """Maximum bytes of a file that `local` reads at once; larger ones are read by range."""

    max_output_bytes: Annotated[int, Field(ge=1, le=MAX_OUTPUT_BYTES)] = MAX_OUTPUT_BYTES
    """Maximum bytes of output of one command in `local`."""

    composite_default: Annotated[BackendName, Field(json_schema_extra=_TRUSTED)] = "local"
    """The backend of `composite` for every path without a route."""

    routes: Annotated[
        dict[str, BackendName], Field(default_factory=lambda: {"notes/": "memory"}, json_schema_extra=_TRUSTED)
    ]
    """The routes of `composite`: backend names by prefix, which is absolute or below the default's directory."""

    docker_image: Annotated[str, Field(min_length=1, json_schema_extra=_TRUSTED)] = "python:3.12-slim"
    """The image of a new container of `docker`."""

    docker_network: Annotated[str | None, Field(json_schema_extra=_TRUSTED)] = None
    """The network mode of `docker`, such as `none`; by default the engine's."""

    docker_memory: Annotated[str | None, Field(json_schema_extra=_TRUSTED)] = None
    """The memory limit of `docker`, such as `512m`."""

    docker_cpus: Annotated[float | None, Field(gt=0, json_schema_extra=_TRUSTED)] = None
    """The limit of `docker` in processor cores."""
