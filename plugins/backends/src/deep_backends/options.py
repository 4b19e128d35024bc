"""The options of `[plugins.backends]`."""

# No postponed annotations: pydantic would compile and evaluate the text of each at class creation.
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from deep_core import PluginOptions

from .limits import MAX_OUTPUT_BYTES, MAX_READ_BYTES

__all__ = ["BackendName", "BackendsOptions"]

BackendName = Literal["memory", "local", "sandbox", "docker"]

# A project's file, which the model may have written, cannot raise the user's limits.
_LOWER: dict[str, JsonValue] = {"project": "lower"}


class BackendsOptions(PluginOptions):
    """Options of the backends chosen by name: `memory`, `local`, `sandbox`, `composite` and `docker`."""

    root: Path | None = None
    """The directory of `local` and `sandbox`, mounted in `docker`; by default the current one at creation."""

    env: Annotated[tuple[str, ...], Field(json_schema_extra={"project": "subset"})] = ()
    """Names of host variables that commands see, besides the harmless ones (in `docker`: only these)."""

    protected: Annotated[tuple[Path, ...], Field(json_schema_extra={"project": "superset"})] = ()
    """Further files and directories that `local`, `sandbox` and `docker` never write; reading them is fine."""

    max_read_bytes: Annotated[int, Field(ge=1, json_schema_extra=_LOWER)] = MAX_READ_BYTES
    """Maximum bytes of a file that `local` reads at once; larger ones are read by range."""

    max_output_bytes: Annotated[int, Field(ge=1, le=MAX_OUTPUT_BYTES, json_schema_extra=_LOWER)] = MAX_OUTPUT_BYTES
    """Maximum bytes of output of one command in `local`."""

    virtual_root: bool = False
    """Whether an absolute path outside the root of `local` or `sandbox` names a file below it, for file operations."""

    hide_environment: Annotated[bool, Field(json_schema_extra={"project": "on"})] = True
    """Whether commands of `local` and `sandbox` cannot read the environment and memory of this process (Linux)."""

    sandbox_network: Annotated[bool, Field(json_schema_extra={"project": "off"})] = False
    """Whether commands of `sandbox` reach the network."""

    sandbox_readable: Annotated[tuple[Path, ...], Field(json_schema_extra={"project": "subset"})] = ()
    """Files and folders below your home directory that commands of `sandbox` may read."""

    composite_default: BackendName = "local"
    """The backend of `composite` for every path without a route."""

    routes: Annotated[dict[str, BackendName], Field(default_factory=lambda: {"notes/": "memory"})]
    """The routes of `composite`: backend names by prefix, which is absolute or below the default's directory."""

    docker_image: Annotated[str, Field(min_length=1)] = "python:3.12-slim"
    """The image of a new container of `docker`."""

    docker_mount: Annotated[bool, Field(json_schema_extra={"project": "off"})] = True
    """Whether `root` is mounted in the container of `docker`, as its working directory; else it starts empty."""

    docker_network: str | None = None
    """The network mode of `docker`, such as `none`; by default the engine's."""

    docker_memory: str | None = None
    """The memory limit of `docker`, such as `512m`."""

    docker_cpus: Annotated[float | None, Field(gt=0, json_schema_extra=_LOWER)] = None
    """The limit of `docker` in processor cores."""
