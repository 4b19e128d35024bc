"""Calls written as Python, `f(a=1, b="x")`: literals only, nothing is evaluated."""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from ..calls import InvalidCall, ToolCall
from .json_body import dump, invalid

__all__ = ["STRING", "calls_of_python", "python_call"]

STRING: Final = (
    r'"""(?:[^"\\]++|\\.|"(?!""))*+"""'
    r"|'''(?:[^'\\]++|\\.|'(?!''))*+'''"
    r'|"(?:[^"\\]++|\\.)*+"'
    r"|'(?:[^'\\]++|\\.)*+'"
)
TOKEN: Final = re.compile(rf"{STRING}|[\[\](){{}},]", re.DOTALL)
STRINGS: Final = re.compile(rf"([A-Za-z]*)({STRING})", re.DOTALL)
ESCAPE: Final = re.compile(r"\\(.[0-7]{0,2})", re.DOTALL)
CALL: Final = re.compile(r"\s*+([A-Za-z0-9_][A-Za-z0-9_.-]*+)\s*+\((.*)\)\s*\Z", re.DOTALL)
CONSTANTS: Final = {"true": True, "false": False, "null": None}
DEEPEST: Final = 100


def calls_of_python(written: str) -> list[ToolCall | InvalidCall]:
    """Read `[f(a=1), g()]`, or one call. One that is not valid does not lose the others."""
    text = written.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_call(element) for element in _elements(text[1:-1])] or [invalid(written, "the list has no calls", "")]
    return [_call(text)]


def _elements(text: str) -> list[str]:
    elements: list[str] = []
    depth = start = 0
    for found in TOKEN.finditer(text):
        if found[0] in "([{":
            depth += 1
        elif found[0] in ")]}":
            depth -= 1
        elif found[0] == "," and depth == 0:
            elements.append(text[start : found.start()])
            start = found.end()
    return [element for element in [*elements, text[start:]] if element.strip()]


def _call(written: str) -> ToolCall | InvalidCall:
    found = CALL.match(written)
    if found is None:
        return invalid(written, 'the call is not written as name(parameter="value")', "")
    name = found[1].removesuffix(".call")
    try:
        return ToolCall("", name, _arguments(found[2]))
    except SyntaxError as error:
        return invalid(written, f"the arguments of {name} are not valid Python: {error.msg}", name)
    except (RecursionError, MemoryError):
        return invalid(written, f"the arguments of {name} are nested too deeply", name)
    except ValueError as error:
        return invalid(written, f"the arguments of {name}: {error}", name)


def _arguments(text: str) -> dict[str, Any]:
    expression = ast.parse(f"f({STRINGS.sub(_string, text)}\n)", mode="eval").body
    if not isinstance(expression, ast.Call) or not isinstance(expression.func, ast.Name):
        raise ValueError("they are not arguments")
    if expression.args:
        raise ValueError('write each argument with its name, as parameter="value"')
    arguments: dict[str, Any] = {}
    for each in expression.keywords:
        value = _literal(each.value)
        if each.arg is not None:
            arguments[each.arg] = value
        elif isinstance(value, dict):
            arguments.update(cast("dict[str, Any]", value))
        else:
            raise ValueError("** needs a dict")
    json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()  # refuses 1e999 and half of a surrogate pair
    return arguments


def _string(found: re.Match[str]) -> str:
    """A string that Python reads without a warning: line breaks may stand in it, and escapes that Python lacks."""
    prefix, string = found[1], found[2]
    if "r" in prefix.lower():
        return found[0]
    if not string.startswith(('"""', "'''")):
        string = string.replace("\n", "\\n").replace("\r", "\\r")

    def escape(found: re.Match[str]) -> str:
        rest = found[1]
        known = rest[0] in "\n\\'\"abfnrtvxNuU" or (rest[0] in "01234567" and int(rest[:3], 8) < 0o400)
        return found[0] if known else f"\\{found[0]}"

    return prefix + ESCAPE.sub(escape, string)


def _literal(node: ast.expr, depth: int = 0) -> Any:
    if depth > DEEPEST:
        raise ValueError("they are nested too deeply")
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, str | int | float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in CONSTANTS:
        return CONSTANTS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(each, depth + 1) for each in node.elts]
    if isinstance(node, ast.Dict):
        result: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                raise ValueError("the keys of a dict must be strings")
            result[key.value] = _literal(value, depth + 1)
        return result
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _literal(node.operand, depth + 1)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value if isinstance(node.op, ast.USub) else value
    raise ValueError("only literals are allowed: text, numbers, True, False, None, lists and dicts")


def python_call(call: ToolCall, escape: re.Pattern[str]) -> str:
    """Write a call. What the pattern finds in a string is markup: it is written as an escape."""
    plain = {key: value for key, value in call.arguments.items() if _is_parameter(key)}
    others = {key: value for key, value in call.arguments.items() if not _is_parameter(key)}
    written = [f"{key}={_write(value, escape)}" for key, value in plain.items()]
    if others:
        written.append(f"**{_write(others, escape)}")
    return f"{call.name}({', '.join(written)})"


def _is_parameter(key: str) -> bool:
    return key.isascii() and key.isidentifier() and not keyword.iskeyword(key) and not key.startswith("__")


def _write(value: object, escape: re.Pattern[str]) -> str:
    if isinstance(value, str):
        return dump(value, escape)  # a JSON string is a Python string
    if isinstance(value, Mapping):
        pairs = cast("Mapping[str, object]", value).items()
        return "{" + ", ".join(f"{dump(key, escape)}: {_write(each, escape)}" for key, each in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_write(each, escape) for each in cast("list[object]", value)) + "]"
    return repr(value)
