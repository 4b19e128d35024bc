"""Tool expressions select tools: a value, a callable and one line of text.

    read & ~network             every tool tagged `read` but not `network`
    name:execute | ^db_         the tool `execute`, and every tool whose name starts with `db_`
    plugin:skills & "a b"       tools of the plugin `skills` that carry the tag `a b`

`~` binds tighter than `&`, `&` tighter than `|`; parentheses group. A bare word is a tag: ASCII letters, digits and
`_ - . /`. ASCII only, because these lines are policy: a look-alike letter would select other tools than the reader
expects. All other tags go in double quotes, whose only escapes are `\\"` and `\\\\`. `` `x` `` is a name, without
escapes; `^x` is `prefix:x`; a word or a quoted form follows `name:`, `prefix:`, `plugin:` and `^`. Every expression
built in Python has a text form that parses to an equal expression; both have the same limit on nesting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from .facts import ToolFacts, ToolLike, tool_facts

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

MAX_NESTING = 50  # how many `(` and `~` may be open at one place; it bounds every recursion over an expression
_OR, _AND, _UNARY = 1, 2, 3  # how tightly a written form binds


class ToolExpression:
    """Selects tools; an immutable, hashable value compared by structure, and a Pydantic AI tool selector.

    Combine with `&`, `|` and `~`. The classes of this module are all there are: one of your own has no text form.
    As a pydantic field it takes an expression, a string (parsed) or a list of tool names, and is dumped as its text.
    """

    _binding: int = _UNARY
    _nesting: int = 0

    def matches(self, tool: ToolFacts) -> bool:
        """Whether the expression selects the tool."""
        match self:
            case Tag():
                return self.name in tool.tags
            case ToolName():
                return self.name != "" and self.name in tool.names
            case FromPlugin():
                return self.name == tool.plugin
            case Prefix():
                return any(name.startswith(self.prefix) for name in tool.names)
            case Not():
                return not self.operand.matches(tool)
            case And():
                return all(operand.matches(tool) for operand in self.operands)
            case Or():
                return any(operand.matches(tool) for operand in self.operands)
            case _:
                raise NotImplementedError(f"{type(self).__name__} is not one of the tool expressions")

    @staticmethod
    def parse(text: str) -> ToolExpression:
        """Parse the text form. Raises `ExpressionParseError` with the position and, if one is known, a fix."""
        return _Parser(text).parse()

    def to_dsl(self) -> str:
        """Return the text form with the fewest parentheses; `parse` turns it into an equal expression."""
        return _write(self, _OR, _dsl)

    def __call__(self, ctx: object, tool_def: ToolLike) -> bool:
        """Act as a `pydantic_ai.tools.ToolSelectorFunc`, for `toolset.filtered(…)` and `tools=` of capabilities."""
        return self.matches(tool_facts(tool_def))

    def __and__(self, other: ToolExpression) -> ToolExpression:
        return And(self, other)

    def __or__(self, other: ToolExpression) -> ToolExpression:
        return Or(self, other)

    def __invert__(self) -> ToolExpression:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a tool expression has no truth value: use & | ~ instead of and, or, not; test `is None`")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    __str__ = to_dsl

    def __repr__(self) -> str:
        return _write(self, _OR, lambda atom: f"{type(atom).__name__}({value_of(atom)!r})")

    def _settle(self, operands: Sequence[object], own: int) -> int:
        """Check operands; return the depth of the text, counting `own` and the parentheses that operands need."""
        nesting = own
        for operand in operands:
            if not isinstance(operand, ToolExpression):
                hint = f"; write Tag({operand!r}) or ToolName({operand!r})" if isinstance(operand, str) else ""
                raise TypeError(f"{type(self).__name__} takes tool expressions, not {type(operand).__name__}{hint}")
            nesting = max(nesting, own + operand._nesting + (operand._binding < self._binding))
        if nesting > MAX_NESTING:
            raise ValueError(f"a tool expression nests at most {MAX_NESTING} deep")
        return nesting

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        def validate(value: Any) -> ToolExpression:
            try:
                expression = as_expression(value)
            except TypeError as error:  # pydantic reports a ValueError with its place and lets a TypeError escape
                raise ValueError(str(error)) from error
            if not isinstance(expression, cls):
                raise ValueError(f"{clip(str(expression))} is not a {cls.__name__}")
            return expression

        string = core_schema.str_schema()
        return core_schema.no_info_plain_validator_function(
            validate,
            json_schema_input_schema=core_schema.union_schema([string, core_schema.list_schema(string)]),
            serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=string),
        )


def _check(owner: ToolExpression, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{type(owner).__name__} takes a string, not {type(value).__name__} {value!r}")
    if not value and not isinstance(owner, ToolName):
        raise ValueError(f'{type(owner).__name__} needs a non-empty string; every tool is ~name:"", none is name:""')


class _Named(ToolExpression):
    __match_args__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        _check(self, name)
        vars(self)["name"] = name


class Tag(_Named):
    """Tools that carry this tag, compared case-sensitively. Raises `ValueError` for the empty string."""


class ToolName(_Named):
    """The tool whose final or original name is this one. The empty name selects no tool: see `NOTHING`."""


class FromPlugin(_Named):
    """Tools that this plugin contributed. Raises `ValueError` for the empty string."""


class Prefix(ToolExpression):
    """Tools one of whose names starts with this. Raises `ValueError` for the empty string: it would be every tool."""

    __match_args__ = ("prefix",)
    prefix: str

    def __init__(self, prefix: str) -> None:
        _check(self, prefix)
        vars(self)["prefix"] = prefix


Atom: TypeAlias = Tag | ToolName | FromPlugin | Prefix

NOTHING: ToolExpression = ToolName("")
"""Selects no tool, like an empty list of names. Its text is `name:""`. `~NOTHING` selects every tool."""


class Not(ToolExpression):
    """Every tool that the operand does not select."""

    __match_args__ = ("operand",)
    operand: ToolExpression

    def __init__(self, operand: ToolExpression) -> None:
        vars(self).update(_nesting=self._settle((operand,), 1), operand=operand)


class _Join(ToolExpression):
    __match_args__ = ("operands",)
    operands: tuple[ToolExpression, ...]

    def __init__(self, *operands: ToolExpression) -> None:
        nesting = self._settle(operands, 0)
        flat: list[ToolExpression] = []
        for operand in operands:
            flat.extend(operand.operands if isinstance(operand, _Join) and type(operand) is type(self) else (operand,))
        if len(flat) < 2:
            raise ValueError(f"{type(self).__name__} joins two or more expressions, not {len(flat)}")
        vars(self).update(_nesting=nesting, operands=tuple(flat))


class And(_Join):
    """Tools that every operand selects. `a & (b & c)`, `(a & b) & c` and `And(a, b, c)` are equal."""

    _binding = _AND


class Or(_Join):
    """Tools that at least one operand selects. Nested `Or`s are flattened, as in `And`."""

    _binding = _OR


def TagSet(*tags: str) -> ToolExpression:
    """Tools that carry any of these tags: `Tag(a) | Tag(b) | …`. Raises `ValueError` when there are none."""
    if not tags:
        raise ValueError("a set of tags needs at least one tag")
    return _any(list(map(Tag, dict.fromkeys(tags))))


def TagNotSet(*tags: str) -> ToolExpression:
    """Tools that carry none of these tags: `~(Tag(a) | Tag(b) | …)`. Raises `ValueError` when there are none."""
    return Not(TagSet(*tags))


def _any(expressions: Sequence[ToolExpression]) -> ToolExpression:
    return Or(*expressions) if len(expressions) > 1 else expressions[0]


def _write(expression: ToolExpression, outer: int, leaf: Callable[[Atom], str]) -> str:
    """Write with the fewest parentheses. Python's operators bind like ours, so `repr` differs only in its leaves."""
    if isinstance(expression, Not):
        return "~" + _write(expression.operand, _UNARY, leaf)
    if isinstance(expression, And | Or):
        own, symbol = (_AND, " & ") if isinstance(expression, And) else (_OR, " | ")
        text = symbol.join(_write(operand, own, leaf) for operand in expression.operands)
        return f"({text})" if own < outer else text
    return leaf(cast("Atom", expression))


def _dsl(atom: Atom) -> str:
    value = value_of(atom)
    if not re.fullmatch(_WORD, value):
        value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    return _WRITTEN[type(atom)] + value


def value_of(atom: Atom) -> str:
    """Return the atom's tag, name or prefix."""
    return atom.prefix if isinstance(atom, Prefix) else atom.name


def clip(text: str) -> str:
    """Truncate a text for a message."""
    return text if len(text) <= 80 else text[:77] + "..."


class ExpressionParseError(ValueError):
    """A text is not a tool expression: `message`, `line` and `column` (from 1), and `context`, the line itself."""

    def __init__(self, message: str, line: int, column: int, context: str) -> None:
        super().__init__(message, line, column, context)  # all four, so that it can be pickled
        self.message, self.line, self.column, self.context = message, line, column, context

    def __str__(self) -> str:
        start = max(0, self.column - 60)  # a window, so that a long line fits a terminal with its caret
        # A model may have written the text: no control character may reach the terminal.
        shown = "".join(c if c.isprintable() else "\ufffd" for c in self.context.rstrip("\r")[start : start + 76])
        return f"line {self.line}, column {self.column}: {self.message}\n  {shown}\n{'^':>{self.column - start + 2}}"


_WORD = r"[A-Za-z0-9_\-./]+"
_ATOM = re.compile(rf'(name:|prefix:|plugin:|\^)?(?:({_WORD})|"((?:[^"\\]|\\["\\])*)"|`([^`]*)`)')
_TOKEN = re.compile(rf"{_WORD}|.", re.DOTALL)
_WRITTEN: dict[type[Atom], str] = {Tag: "", ToolName: "name:", FromPlugin: "plugin:", Prefix: "prefix:"}
_LEADS: dict[str, type[Atom]] = {"name:": ToolName, "prefix:": Prefix, "^": Prefix, "plugin:": FromPlugin}
_HINTS = {
    "and": "use &",
    "or": "use |",
    "not": "use ~",
    "!": "use ~",
    "&&": "use one &",
    "||": "use one |",
    ",": "use | for either, & for both",
    "-": "use & ~ to exclude",
    "*": "there are no wildcards: ^x, without name:, selects names that start with x",
    ":^": "^x stands alone, without a word and a colon",
    "'": "use double quotes",
}


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.last = (0, "")  # where the last atom began, and its text

    def parse(self) -> ToolExpression:
        if not self.peek():
            self.fail('empty expression: write a tag, or name:"" for no tool', 0)
        expression = self.union()
        if self.peek():
            self.fail_after("& or |")
        return expression

    def union(self) -> ToolExpression:
        return self.joined(Or, "|", lambda: self.joined(And, "&", self.unary))

    def joined(self, kind: type[And | Or], symbol: str, operand: Callable[[], ToolExpression]) -> ToolExpression:
        terms = [operand()]
        while self.peek() == symbol:
            self.at += 1
            terms.append(operand())
        return kind(*terms) if len(terms) > 1 else terms[0]

    def unary(self) -> ToolExpression:
        opened = self.peek()
        if opened not in ("~", "("):
            return self.atom()
        if self.depth == MAX_NESTING:
            self.fail(f"nested more than {MAX_NESTING} deep", self.at)
        self.depth, self.at = self.depth + 1, self.at + 1
        inner = Not(self.unary()) if opened == "~" else self.union()
        if opened == "(":
            if self.peek() != ")":
                self.fail_after("& or | or )")
            self.at += 1
        self.depth -= 1
        return inner

    def atom(self) -> ToolExpression:
        start = self.at
        found = _ATOM.match(self.text, start)
        if found is None or self.text[start : found.end() + 1] in _LEADS:
            self.fail_atom(start)
        if self.text.startswith(":", found.end()):
            self.fail(
                "only name:, prefix: and plugin: come before a colon; any other goes in double quotes", found.end()
            )
        self.at, self.last = found.end(), (start, found[0])
        lead, word, quoted, ticked = found.groups()
        kind = _LEADS.get(lead or "", Tag if ticked is None else ToolName)
        value = word or ticked or re.sub(r"\\(.)", r"\1", quoted or "")
        if not value and kind is not ToolName:
            self.fail('nothing between the quotes; every tool is ~name:"", none is name:""', start)
        return kind(value)

    def peek(self) -> str:
        """Skip blanks; return the next character, or "" at the end."""
        while self.text[self.at : self.at + 1] in (" ", "\t", "\r", "\n"):
            self.at += 1
        return self.text[self.at : self.at + 1]

    def fail_atom(self, at: int) -> NoReturn:
        """Raise the error for a position where an atom is missing."""
        begin = next((at + len(lead) for lead in _LEADS if self.text.startswith(lead, at)), at)
        if self.text[begin : begin + 1] in ('"', "`") and begin < len(self.text):
            self.fail('the quote opened here is not closed, or holds a backslash that is neither \\\\ nor \\"', begin)
        self.fail_at(begin, "a tag" if begin == at else "a word or a quoted text right here")

    def fail_after(self, expected: str) -> NoReturn:
        """Raise the error for text that cannot follow a complete operand."""
        began, before = self.last
        if before.lower() in ("and", "or", "not"):
            self.fail(f"{before!r} is read as a tag here: {_HINTS[before.lower()]}", began)
        bare = re.fullmatch(_WORD, before)
        self.fail_at(self.at, expected, f'a tag with a space is written "{clip(before)} …"' if bare else "")

    def fail_at(self, at: int, expected: str, between_words: str = "") -> NoReturn:
        token = _TOKEN.match(self.text, at)
        if token is None:
            self.fail(f"expected {expected}, found the end", at)
        hint = between_words if re.match(_WORD, token[0]) else _HINTS.get(self.text[max(0, at - 1) : at + 1], "")
        hint = _HINTS.get(token[0].lower(), hint)
        if not token[0].isascii():
            hint = f'U+{ord(token[0]):04X} is allowed only between plain double quotes (")'
        self.fail(f"expected {expected}, found {clip(token[0])!r}" + (f": {hint}" if hint else ""), at)

    def fail(self, message: str, at: int) -> NoReturn:
        begin = self.text.rfind("\n", 0, at) + 1
        line = self.text[begin:].split("\n", 1)[0]
        raise ExpressionParseError(message, self.text.count("\n", 0, at) + 1, at - begin + 1, line)


def checked_expression(text: str) -> str:
    """Return a text that is a tool expression, for a field of a configuration. Raises `ExpressionParseError`."""
    ToolExpression.parse(text)
    return text


def as_expression(value: ToolExpression | str | Sequence[str] | AbstractSet[str]) -> ToolExpression:
    """Convert a user's choice of tools to an expression.

    An expression is returned unchanged, a string is parsed, and a list, tuple or set of strings means tool names; an
    empty one is `NOTHING`. Raises `ExpressionParseError`; `ValueError` for an empty name; `TypeError` for other types.
    """
    if isinstance(value, ToolExpression):
        return value
    if isinstance(value, str):
        return ToolExpression.parse(value)
    if not isinstance(value, list | tuple | AbstractSet):
        raise TypeError(f"tools are selected by an expression, a string or a list of names, not {type(value).__name__}")
    # A set has no order, and the text must be the same in every process.
    atoms = [ToolName(name) for name in dict.fromkeys(sorted(value) if isinstance(value, AbstractSet) else value)]
    if NOTHING in atoms:
        raise ValueError("a tool name in the list is empty; to select no tool, use an empty list")
    return _any(atoms or [NOTHING])
