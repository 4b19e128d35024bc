"""Errors for expressions that match no tool, with the nearest tool as a suggestion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from .expressions import NOTHING, And, Atom, FromPlugin, Not, Or, Prefix, Tag, ToolExpression, ToolName, clip, value_of
from .facts import STANDARD_TAGS, ToolFacts

_LACKS: dict[type[Atom], tuple[str, str]] = {  # the start of the message, and its word for the alternatives
    Tag: ("no tool tagged", "tags"),
    ToolName: ("no tool named", "tools"),
    FromPlugin: ("no tool from plugin", "plugins"),
    Prefix: ("no tool name starts with", "tools"),
}


class UnmatchedAtom(NamedTuple):
    """An atom that no tool matches.

    Attributes:
        atom: the atom.
        negated: whether an odd number of `~` applies to it.
        problem: the message.
        near: whether `problem` suggests an atom that a tool matches.
    """

    atom: ToolExpression
    negated: bool
    problem: str
    near: bool


class UnmatchedExpression(ValueError):
    """An `expression` matches no tool: `where` it was given, and its `atoms` that no tool matches."""

    def __init__(self, where: str, expression: ToolExpression, atoms: tuple[UnmatchedAtom, ...]) -> None:
        super().__init__(where, expression, atoms)
        self.where, self.expression, self.atoms = where, expression, atoms

    def __str__(self) -> str:
        problems = [part.problem for part in self.atoms if not part.negated]
        if problems and self.atoms[0].atom == self.expression:
            return f"{self.where}: {problems[0]}"
        why = "; ".join(problems[:5]) or "its parts match tools, but no tool matches the whole"
        return f"{self.where}: {clip(str(self.expression))} matches no tool: {why}"


def check_matches(expression: ToolExpression, subjects: Sequence[ToolFacts], *, where: str) -> None:
    """Raise `UnmatchedExpression` if no tool matches the whole; `where` names the setting. `NOTHING` passes."""
    if expression != NOTHING and not any(expression.matches(subject) for subject in subjects):
        raise UnmatchedExpression(where, expression, unmatched_atoms(expression, subjects))


def check_atoms(expression: ToolExpression, subjects: Sequence[ToolFacts], *, where: str) -> None:
    """Raise `UnmatchedExpression` for the first part that no tool matches, unless it is a standard tag."""
    for part in unmatched_atoms(expression, subjects):
        if not (isinstance(part.atom, Tag) and part.atom.name in STANDARD_TAGS):
            raise UnmatchedExpression(where, part.atom, (part._replace(negated=False),))


def find_slips(expression: ToolExpression, subjects: Sequence[ToolFacts], *, where: str) -> Iterator[str]:
    """Describe excluded atoms that match no tool but resemble one that does: `~exeucte` does not exclude `execute`.

    Not errors: a rule may exclude the tool of a plugin that is not installed.
    """
    for part in unmatched_atoms(expression, subjects):
        if part.negated and part.near:
            yield f"{where}: {clip(str(expression))} excludes nothing by {part.atom}: {part.problem}"


def unmatched_atoms(expression: ToolExpression, subjects: Sequence[ToolFacts]) -> tuple[UnmatchedAtom, ...]:
    """Return the atoms that no tool matches, left to right, each once, with a suggestion; never `NOTHING`."""
    return tuple(
        UnmatchedAtom(atom, negated, *_problem(atom, subjects))
        for atom, negated in dict.fromkeys(_atoms(expression, negated=False))
        if atom != NOTHING and not any(atom.matches(subject) for subject in subjects)
    )


def _atoms(expression: ToolExpression, *, negated: bool) -> Iterator[tuple[Atom, bool]]:
    if isinstance(expression, Not):
        yield from _atoms(expression.operand, negated=not negated)
    elif isinstance(expression, And | Or):
        for operand in expression.operands:
            yield from _atoms(operand, negated=negated)
    else:
        yield cast("Atom", expression), negated


def _problem(atom: Atom, subjects: Sequence[ToolFacts]) -> tuple[str, bool]:
    from difflib import get_close_matches

    value, own = value_of(atom), type(atom)
    names = list(dict.fromkeys(name for subject in subjects for name in subject.names))
    known: dict[type[Atom], list[str]] = {
        Tag: sorted({tag for subject in subjects for tag in subject.tags}),
        ToolName: names,
        FromPlugin: sorted({subject.plugin for subject in subjects}),
    }
    says, plural = _LACKS[own]
    lack = f"{says} {value!r}"
    if meant := [kind(value) for kind, values in known.items() if value in values]:
        return f"{lack}; did you mean {meant[0]}?", True
    # Prefer a near miss of the same kind. 0.7: difflib's default of 0.6 pairs unrelated short words.
    near = {own: [name[: len(value)] for name in names] if own is Prefix else known[own]} | known
    for kind, values in near.items():
        folded = {candidate.casefold(): candidate for candidate in values}
        if close := get_close_matches(value.casefold(), folded, n=1, cutoff=0.7):
            found = folded[close[0]]
            return f"{lack}; did you mean {repr(found) if kind is own else kind(found)}?", True
    listed = known.get(own, names)
    more = ", …" if len(listed) > 5 else ""
    return f"{lack}; {plural}: {', '.join(map(repr, listed[:5])) or 'none'}{more}", False


def check_rule(rule: object, subjects: Sequence[ToolFacts], where: str) -> None:
    """Raise `UnmatchedExpression` if a rule is an expression that matches no tool.

    `~x` may match nothing, but `x` must match something.
    """
    if isinstance(rule, Not) and not any(map(rule.matches, subjects)):
        rule = rule.operand
    if isinstance(rule, ToolExpression):
        check_matches(rule, subjects, where=where)
