"""{{ cookiecutter.description }}

Importing this module loads neither pydantic nor Pydantic AI: hooks import what they need inside.
"""

from __future__ import annotations

{% if cookiecutter.toolset or cookiecutter.capability or cookiecutter.__notes or cookiecutter.__nothing %}
from typing import TYPE_CHECKING, Any
{% else %}
from typing import TYPE_CHECKING
{% endif %}

from deep_core import hookimpl{% if cookiecutter.__options %}, lazy_exports{% endif %}


if TYPE_CHECKING:
{% if cookiecutter.session_method %}
    from collections.abc import Callable
{% endif %}
{% if cookiecutter.hook %}
    from types import ModuleType
{% endif %}
{% if cookiecutter.session_method or cookiecutter.hook %}

{% endif %}
{% set names %}
{% if cookiecutter.toolset or cookiecutter.backend or cookiecutter.history_processor or cookiecutter.skill_loader or cookiecutter.__sections or cookiecutter.capability or cookiecutter.check_call or cookiecutter.run_event or cookiecutter.__nothing %}
AgentContext
{% endif %}
{% if cookiecutter.backend %}
BackendFactory
{% endif %}
{% if cookiecutter.check_call %}
Deny
{% endif %}
{% if cookiecutter.history_processor %}
Processor
{% endif %}
{% if cookiecutter.__sections %}
PromptSection
{% endif %}
{% if cookiecutter.run_event %}
RunEvent
{% endif %}
{% if cookiecutter.skill_loader %}
SkillLoader
{% endif %}
{% if cookiecutter.__notes %}
StateSlot
{% endif %}
{% if cookiecutter.check_call %}
ToolCall
{% endif %}
{% endset %}
{% set names = names.split() %}
{% if names | join(', ') | length > 94 %}
    from deep_core import (
        {{ names | join(',\n        ') }},
    )
{% elif names %}
    from deep_core import {{ names | join(', ') }}
{% endif %}
{% if cookiecutter.__nothing %}
    from pydantic_ai import Agent
{% endif %}
{% if cookiecutter.capability %}
    from pydantic_ai.capabilities import AbstractCapability
{% endif %}
{% if cookiecutter.toolset %}
    from pydantic_ai.toolsets import AbstractToolset
{% endif %}
{% if cookiecutter.__options %}
{% if names %}

{% endif %}
    from .options import {{ cookiecutter.__class }}Options

__all__ = ["{{ cookiecutter.__class }}Options"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["{{ cookiecutter.__class }}Options"]})


@hookimpl
def deep_options() -> type[{{ cookiecutter.__class }}Options]:
    """What `[plugins.{{ cookiecutter.plugin }}.options]` accepts."""
    from .options import {{ cookiecutter.__class }}Options

    return {{ cookiecutter.__class }}Options
{% endif %}
{% if cookiecutter.hook %}


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """The hook `deep_{{ cookiecutter.plugin }}_facts`, which other plugins implement."""
    from . import hookspecs

    return [hookspecs]
{% endif %}
{% if cookiecutter.__notes %}


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """The data that each session keeps."""
    from .state import NOTES

    return [NOTES]
{% endif %}
{% if cookiecutter.session_method %}


@hookimpl
def deep_session_methods() -> dict[str, Callable[..., Any]]:
    """The method that applications call: `deps.add_{{ cookiecutter.plugin }}_note("…")`."""
    from .session import add_note

    return {"add_{{ cookiecutter.plugin }}_note": add_note}
{% endif %}
{% if cookiecutter.toolset %}


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """The tools that the model may call."""
    from .options import {{ cookiecutter.__class }}Options
    from .toolset import build_toolset

    return [build_toolset(context.options({{ cookiecutter.__class }}Options))]
{% endif %}
{% if cookiecutter.backend %}


@hookimpl
def deep_backends(context: AgentContext) -> dict[str, BackendFactory]:
    """The backend, created once for each session when the session first needs it."""
    from .backend import FilesInMemory

    return {"{{ cookiecutter.plugin }}": lambda context: FilesInMemory()}
{% endif %}
{% if cookiecutter.history_processor %}


@hookimpl
def deep_history_processors(context: AgentContext) -> list[Processor]:
    """The processor that changes messages before each request."""
    from .history import build_redactor
    from .options import {{ cookiecutter.__class }}Options

    return [build_redactor(context.options({{ cookiecutter.__class }}Options))]
{% endif %}
{% if cookiecutter.skill_loader %}


@hookimpl
def deep_skill_loaders(context: AgentContext) -> list[SkillLoader]:
    """The skills in this package."""
    from .skills import PackageSkills

    return [PackageSkills()]
{% endif %}
{% if cookiecutter.__sections %}


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """The texts in the prompt."""
    from .sections import build_sections

    return build_sections(context)
{% endif %}
{% if cookiecutter.capability %}


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """The capability that reports slow tools of any plugin."""
    from .capability import SlowTools
    from .options import {{ cookiecutter.__class }}Options

    options = context.options({{ cookiecutter.__class }}Options)
    return [SlowTools(options.slow_seconds, context.logger)]
{% endif %}
{% if cookiecutter.check_call %}


@hookimpl
def deep_check_call(call: ToolCall, context: AgentContext) -> Deny | None:
    """Decide on one tool call, of any plugin."""
    from .checks import check
    from .options import {{ cookiecutter.__class }}Options

    return check(call, context.options({{ cookiecutter.__class }}Options))
{% endif %}
{% if cookiecutter.run_event %}


@hookimpl
def deep_run_event(event: RunEvent, context: AgentContext) -> None:
    """Log one event of a run."""
    from .events import log_event

    log_event(event, context.logger)
{% endif %}
{% if cookiecutter.__nothing %}


@hookimpl
def deep_agent_created(agent: Agent[Any, Any], context: AgentContext) -> None:
    """Log that an agent was created. The plugin contributes nothing yet: add a hook, then remove this one."""
    context.logger.debug("created agent %s", agent.name)
{% endif %}
