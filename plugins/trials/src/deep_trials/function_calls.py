"""Whether calls of functions are those that a BFCL entry accepts: the rules of its AST checker, and literals.

An accepted answer is `{"function": {"argument": [value, …]}}`; the value "" says that it may be left out. Java
and JavaScript arguments are texts of these languages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from .checking import Broken, Trial

__all__ = ["Language", "call_problem", "check", "language_of", "problem", "read_literal", "write_literal"]

Language: TypeAlias = Literal["python", "java", "javascript"]
Call: TypeAlias = Mapping[str, Mapping[str, Any]]
TYPES: Mapping[Language, Mapping[str, type]] = {
    "python": {
        "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
        "any": str,
    },
    "java": {
        "byte": int, "short": int, "integer": int, "long": int, "float": float, "double": float, "boolean": bool,
        "char": str, "Array": list, "ArrayList": list, "HashMap": dict, "Hashtable": dict, "String": str, "any": str,
    },
    "javascript": {
        "String": str, "integer": int, "float": float, "Bigint": int, "Boolean": bool, "dict": dict, "array": list,
        "any": str,
    },
}  # fmt: skip
_IGNORED = re.compile(r"[ ,./\-_*^]")
"""Signs that make no difference between two texts: `April 1, 2024` is `April 1 2024`."""
_NUMBER = r"-?\d+(?:\.\d+)?"
_SCALARS: Mapping[Language, Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "java": {
        **dict.fromkeys(("byte", "short", "integer"), (r"-?\d+", int)),
        "long": (r"-?\d+[lL]", lambda text: int(text[:-1])),
        "float": (rf"{_NUMBER}(?:[eE][+-]?\d+)?[fF]", lambda text: float(text[:-1])),
        "double": (rf"{_NUMBER}(?:[eE][+-]?\d+)?", float),
        "boolean": (r"true|false", lambda text: text == "true"),
    },
    "javascript": {
        "integer": (r"-?\d+", int),
        "float": (_NUMBER, float),
        "Bigint": (r"-?\d+n", lambda text: int(text[:-1])),
        "Boolean": (r"true|false", lambda text: text == "true"),
        "String": (r"(?s:\".*\"|'.*')", lambda text: text[1:-1]),
    },
}


def check(trial: Trial) -> bool:
    """Judge a trial by the `case.json` beside its `check.py`.

    Raises:
        Broken: the calls are not the accepted ones; the message says why.
    """
    case: dict[str, Any] = json.loads((trial.tests / "case.json").read_bytes())
    calls = [{each.tool: each.args} for each in trial.calls]
    why = problem(case["functions"], calls, case["accepted"], case["category"])
    if why is not None:
        raise Broken(why)
    return True


def language_of(category: str) -> Language:
    """Return the language of a category of BFCL."""
    return "javascript" if "javascript" in category else "java" if "java" in category else "python"


def problem(
    functions: Sequence[Mapping[str, Any]],
    calls: Sequence[Call],
    accepted: Sequence[Call],
    category: str,
) -> str | None:
    """Return why calls are not the accepted ones; None if they are.

    Args:
        functions: what was offered.
        calls: what was called, in order: `{"function": {"argument": value}}`.
        accepted: the accepted answers, each for one call.
        category: the category of BFCL. In parallel ones the order of calls does not matter.
    """
    if "irrelevance" in category:
        return "it called a function, and none fits" if calls else None
    if "relevance" in category:
        return None if calls else "it called no function"
    if len(calls) != len(accepted):
        return f"{len(calls)} calls, not {len(accepted)}"
    language, offered = language_of(category), {each["name"]: each for each in functions}
    if "parallel" not in category:
        (name,) = accepted[0]
        function = functions[0] if "multiple" not in category else offered[name]
        return call_problem(function, calls[0], accepted[0], language)
    left = [*calls]
    for answer in accepted:
        (name,) = answer
        found = next((each for each in left if call_problem(offered[name], each, answer, language) is None), None)
        if found is None:
            return f"no call fits the accepted one of {name}"
        left.remove(found)
    return None


def call_problem(function: Mapping[str, Any], call: Call, accepted: Call, language: Language) -> str | None:
    """Return why one call is not the accepted one; None if it is."""
    name: str = function["name"]
    if name not in call:
        return f"{name} is not called"
    given, wanted = call[name], next(iter(accepted.values()))
    properties: Mapping[str, Any] = function["parameters"]["properties"]
    for each in function["parameters"]["required"]:
        if each not in given:
            return f"{each} is missing"
    for each, value in given.items():
        if each not in properties or each not in wanted:
            return f"{each} is not expected"
        if (said := _value_problem(value, wanted[each], properties[each], language)) is not None:
            return f"{each}: {said}"
    missing = [each for each, values in wanted.items() if each not in given and "" not in values]
    return f"{missing[0]} is missing" if missing else None


def _value_problem(value: Any, accepted: Sequence[Any], schema: Mapping[str, Any], language: Language) -> str | None:
    kind = schema["type"]
    expected = TYPES[language][kind]
    item_kind: str | None = schema["items"]["type"] if kind in ("array", "tuple", "Array", "ArrayList") else None
    item = None if item_kind is None or language != "python" else TYPES[language][item_kind]
    if language != "python":
        if not isinstance(value, str):
            return f"{value!r} is no text of {language}"
        value = read_literal(value, kind, item_kind, language)
    elif kind == "float" and type(value) is int:
        value = float(value)
    wrong = f"{value!r} is not accepted"
    is_name = _kind_of(accepted) not in (None, expected)  # a variable stands where a value was expected
    if type(value) is not expected or not _items_fit(value, accepted, item):
        if _kind_of(accepted) is not type(value):
            return f"{value!r} is no {kind}"
        is_name = True
    if is_name:
        return None if value in accepted else wrong
    if expected is dict:
        return None if any(_fields_fit(value, each) for each in accepted if each != "") else wrong
    if expected is list and item is dict:
        return None if any(_all_fields_fit(value, each) for each in accepted) else wrong
    if expected is str:
        return None if _plain(value) in [_plain(each) for each in accepted if isinstance(each, str)] else wrong
    if expected is list:
        return None if _plain_items(value) in [_plain_items(each) for each in accepted] else wrong
    return None if value in accepted else wrong


def _kind_of(accepted: Sequence[Any]) -> type[object] | None:
    for each in accepted:
        value: object = each
        if value != "":
            return type(value)
    return None


def _items_fit(value: Any, accepted: Sequence[Any], item: type | None) -> bool:
    """Whether the items of an array have the type of its schema, or that of an accepted array."""
    if item is None:
        return True
    for each in accepted:
        if not isinstance(each, list):
            return True
        other = _kind_of(cast("list[Any]", each))
        if all(type(inner) in (item, other) for inner in value):
            return True
    return False


def _fields_fit(value: Mapping[str, Any], accepted: Mapping[str, Sequence[Any]]) -> bool:
    if any(key not in accepted for key in value):
        return False
    if any(key not in value and "" not in values for key, values in accepted.items()):
        return False
    return all(_plain(inner) in [*map(_plain, accepted[key])] for key, inner in value.items())


def _all_fields_fit(value: Sequence[Any], accepted: Sequence[Any]) -> bool:
    return len(value) == len(accepted) and all(
        each != "" and _fields_fit(inner, each) for inner, each in zip(value, accepted, strict=True)
    )


def _plain(value: Any) -> Any:
    """Return a text without case and signs that make no difference; any other value as it is."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def _plain_items(values: Any) -> list[Any]:
    return [*map(_plain, values)]


def read_literal(text: str, kind: str, item: str | None, language: Language) -> Any:
    """Return the value of a text of Java or JavaScript; the text itself if it is none of that type."""
    pattern, convert = _SCALARS[language].get(kind, (None, None))
    if pattern is not None and convert is not None:
        return convert(text) if re.fullmatch(pattern, text) else text
    if language == "java":
        return _java(text, kind, item) if TYPES["java"][kind] in (list, dict) else text
    read = _js(text, item) if kind in ("array", "dict") else text
    return read if isinstance(read, TYPES[language][kind]) else text


def _java(text: str, kind: str, item: str | None) -> Any:
    """Read a collection as Java makes one: `new int[]{1, 2}`, `Arrays.asList(…)`, `{{ add(…); }}`, `{{ put(…); }}`."""
    text = text.strip()
    if not text.startswith("new"):
        return text
    inner = _between(text, "{", "}")
    if kind == "HashMap":
        pairs = [_split(each) for each in _calls(inner, "put")]
        return {str(_guess(key)): _guess(value) for key, value in pairs}
    if kind == "Array":
        items = None if inner is None else _split(inner)
    else:
        listed = _between(text, "asList(", ")")
        items = _calls(inner, "add") if listed is None else _split(listed.removesuffix(")"))
    return text if items is None else [_item(each, item, kind) for each in items]


def _item(text: str, item: str | None, kind: str) -> Any:
    if item is None:
        return _guess(text)
    if kind == "ArrayList" and item in ("char", "String"):
        return text[1:-1]
    return read_literal(text, item, None, "java")


def _calls(body: str | None, method: str) -> list[str]:
    """Return the arguments of each call of a method in the body of an initializer."""
    statements = (body or "").strip("{} \n").split(";")
    return [found for each in statements if (found := _between(each, f"{method}(", ")")) is not None]


def _between(text: str, start: str, end: str) -> str | None:
    at = text.find(start)
    return None if at < 0 or not (last := text.rfind(end)) > at else text[at + len(start) : last]


def _split(text: str) -> list[str]:
    """Split at the commas that are in no quotes and no brackets."""
    parts, depth, quote, start = list[str](), 0, "", 0
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote and text[at - 1] != "\\" else quote
        elif sign in "'\"":
            quote = sign
        elif sign in "[{(":
            depth += 1
        elif sign in "]})":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [each.strip() for each in (*parts, text[start:]) if each.strip()]


def _js(text: str, item: str | None) -> Any:
    """Read an array or an object as JavaScript writes one."""
    text = text.strip()
    listed = _between(text, "new Array(", ")") if text.startswith("new Array(") else None
    if text[:1] == "[":
        listed = _between(text, "[", "]")
    if listed is not None:
        return [
            _js(each, None) if item is None or each[:1] in "[{" else read_literal(each, item, None, "javascript")
            for each in _split(listed)
        ]
    if text[:1] == "{":
        pairs = [each.partition(":") for each in _split(_between(text, "{", "}") or "")]
        return {key.strip().strip("'\""): _js(value, None) for key, _, value in pairs}
    return _guess(text)


def _guess(text: str) -> Any:
    """Return the value of a text without a declared type."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    number = re.fullmatch(r"(-?\d+)[lL]?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)[fF]?", text)
    if number is None:
        return text
    return float(number[2]) if number[1] is None else int(number[1])


def write_literal(value: Any, schema: Mapping[str, Any], language: Language) -> str:
    """Return a value as a text of Java or JavaScript: what `read_literal` reads."""
    kind: str = schema["type"]
    if isinstance(value, str):
        return f'"{value}"' if (language, kind) == ("javascript", "String") else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        suffix = {"long": "L", "Bigint": "n", "float": "f" if language == "java" else ""}
        return f"{value!r}{suffix.get(kind, '')}"
    inner = schema.get("items", {"type": ""})
    pairs = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    if language == "javascript":
        if pairs:
            return f"{{{', '.join(f'{key}: {_quoted(each, inner, language)}' for key, each in pairs.items())}}}"
        return f"[{', '.join(_quoted(each, inner, language) for each in listed)}]"
    if kind == "HashMap":
        puts = [f'put("{key}", {_quoted(each, inner, language)});' for key, each in pairs.items()]
        return f"new HashMap<>() {{{{ {' '.join(puts)} }}}}"
    items = ", ".join(_quoted(each, inner, language) for each in listed)
    if kind == "Array":
        return f"new Object[]{{{items}}}"
    return f"new ArrayList<>(Arrays.asList({items}))" if items else "new ArrayList<>()"


def _quoted(value: Any, schema: Mapping[str, Any], language: Language) -> str:
    if not isinstance(value, str):
        return write_literal(value, schema, language)
    return f"'{value}'" if schema["type"] == "char" else f'"{value}"'
