"""Work on tool expressions: select from many tools, simplify, and explain one decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tool_expressions import And, FromPlugin, Not, Or, Prefix, Tag, ToolExpression, ToolFacts, ToolName, tool_facts

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["Diagnosis", "diagnose", "matching", "simplify"]


def matching(expression: ToolExpression, tools: Sequence[ToolFacts]) -> set[int]:
    """Return the positions of the tools that an expression selects: those for which `matches` is true.

    One pass over the tools for each name and tag of the expression, which is an order of magnitude faster than
    `matches` on each of many tools.
    """
    match expression:
        case Tag(name):
            return {at for at, tool in enumerate(tools) if name in tool.tags}
        case FromPlugin(name):
            return {at for at, tool in enumerate(tools) if tool.plugin == name}
        case ToolName(name):
            return {at for at, tool in enumerate(tools) if name in (tool.name, tool.original)}
        case Prefix(prefix):
            return {
                at for at, tool in enumerate(tools) if tool.name.startswith(prefix) or tool.original.startswith(prefix)
            }
        case Not(operand):
            return set(range(len(tools))) - matching(operand, tools)
        case And(operands):
            return set[int].intersection(*(matching(operand, tools) for operand in operands))
        case Or(operands):
            return set[int].union(*(matching(operand, tools) for operand in operands))
        case _:
            return {at for at, tool in enumerate(tools) if expression.matches(tool)}


def simplify(expression: ToolExpression) -> ToolExpression:
    """Return a shorter expression that selects the same tools: without `~~`, and no operand twice in a row of `&`/`|`.

    Operands keep their order. Raises `ValueError` for a class that is not one of deep_core's.
    """
    match expression:
        case Not(Not(operand)):
            return simplify(operand)
        case Not(operand):
            inner = simplify(operand)
            return inner.operand if isinstance(inner, Not) else Not(inner)
        case And(operands) | Or(operands):
            kind = And if isinstance(expression, And) else Or
            simple: dict[ToolExpression, None] = {}
            for operand in map(simplify, operands):
                # An operand that lost its double `~` may be of this kind now: its operands are ours.
                parts = operand.operands if isinstance(operand, kind) else (operand,)
                simple.update(dict.fromkeys(parts))
            return kind(*simple) if len(simple) > 1 else next(iter(simple))
        case _:
            return expression


@dataclass(frozen=True)
class Diagnosis:
    """Why an expression selects a tool or not. Its text is a tree, a line for each part.

    Attributes:
        matched: whether this part selects the tool.
        expression: the part.
        detail: the reason, in a few words.
        children: the same for its operands.
    """

    matched: bool
    expression: ToolExpression
    detail: str
    children: tuple[Diagnosis, ...] = ()

    @property
    def node(self) -> str:
        """The part's class: `And`, `Or`, `Not`, `Tag`, `ToolName`, `Prefix` or `FromPlugin`."""
        return type(self.expression).__name__

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield the tree, outermost first."""
        yield f"{'  ' * depth}{'yes' if self.matched else 'no '} {self.expression}: {self.detail}"
        for child in self.children:
            yield from child.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def diagnose(expression: ToolExpression, tool: ToolFacts | ToolDefinition) -> Diagnosis:
    """Explain, for each part of an expression, whether and why it selects a tool."""
    facts = tool if isinstance(tool, ToolFacts) else tool_facts(tool)
    operands: tuple[ToolExpression, ...] = ()
    if isinstance(expression, And | Or):
        operands = expression.operands
    elif isinstance(expression, Not):
        operands = (expression.operand,)
    children = tuple(diagnose(operand, facts) for operand in operands)
    matched = expression.matches(facts)
    return Diagnosis(matched, expression, _detail(expression, facts, children, matched), children)


def _detail(expression: ToolExpression, tool: ToolFacts, children: Sequence[Diagnosis], matched: bool) -> str:
    chosen = sum(child.matched for child in children)
    match expression:
        case Tag():
            return f"its tags are {', '.join(tool.tags)}" if tool.tags else "it has no tags"
        case ToolName() | Prefix():
            return f"its name is {' or '.join(tool.names)}"
        case FromPlugin():
            return f"its plugin is {tool.plugin}"
        case Not():
            return "the part below does not select it" if matched else "the part below selects it"
        case _:
            needed = "all must" if isinstance(expression, And) else "one must"
            return f"{chosen} of {len(children)} select it, {needed}"
