"""{{ cookiecutter.description }}

Importing this module loads neither pydantic nor Pydantic AI: hooks import what they need inside.
"""

from __future__ import annotations

{% if not (cookiecutter.toolset or cookiecutter.capability) and not cookiecutter.__nothing %}
from typing import TYPE_CHECKING
{% else %}
from typing import TYPE_CHECKING, Any
{% endif %}

from deep_core import hookimpl{% if cookiecutter.__options %}, lazy_exports{% endif %}


if TYPE_CHECKING:
{% set names %}
{% if cookiecutter.toolset or cookiecutter.backend or cookiecutter.history_processor or cookiecutter.skill_loader or cookiecutter.prompt_section or cookiecutter.capability or cookiecutter.__nothing %}
AgentContext
{% endif %}
{% if cookiecutter.backend %}
BackendFactory
{% endif %}
{% if cookiecutter.history_processor %}
Processor
{% endif %}
{% if cookiecutter.prompt_section %}
PromptSection
{% endif %}
{% if cookiecutter.skill_loader %}
SkillLoader
{% endif %}
{% endset %}
{% if names.split() %}
    from deep_core import {{ names.split() | join(', ') }}
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
{% if names.split() %}

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
    """The backend `{{ cookiecutter.plugin }}`: one for each session, made when the session first needs it."""
    from .backend import FilesInMemory

    return {"{{ cookiecutter.plugin }}": lambda context: FilesInMemory()}
{% endif %}
{% if cookiecutter.history_processor %}


@hookimpl
def deep_history_processors(context: AgentContext) -> list[Processor]:
    """What changes the messages before a request is sent."""
    from .history import build_redactor
    from .options import {{ cookiecutter.__class }}Options

    return [build_redactor(context.options({{ cookiecutter.__class }}Options))]
{% endif %}
{% if cookiecutter.skill_loader %}


@hookimpl
def deep_skill_loaders(context: AgentContext) -> list[SkillLoader]:
    """The skills that this package ships."""
    from .skills import PackageSkills

    return [PackageSkills()]
{% endif %}
{% if cookiecutter.prompt_section %}


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """What the model should know."""
    from .options import {{ cookiecutter.__class }}Options
    from .sections import build_sections

    return build_sections(context.options({{ cookiecutter.__class }}Options))
{% endif %}
{% if cookiecutter.capability %}


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """A report of slow tools, whoever brings them."""
    from .capability import SlowTools
    from .options import {{ cookiecutter.__class }}Options

    options = context.options({{ cookiecutter.__class }}Options)
    return [SlowTools(options.slow_seconds, context.logger)]
{% endif %}
{% if cookiecutter.__nothing %}


@hookimpl
def deep_agent_created(agent: Agent[Any, Any], context: AgentContext) -> None:
    """Says in the log that it is there. It contributes nothing yet: add a hook, then remove this one."""
    context.logger.debug("agent %s was made", agent.name)
{% endif %}
