"""The modules that importing and using the plugin loads, in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.drawn import sample


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


LOADED = "import sys; print(*sorted({'pydantic', 'pydantic_ai', 'pydantic_ai_todo', 'redis'} & set(sys.modules)))"


def test_importing_the_plugin_loads_no_framework() -> None:
    assert run(f"import deep_todo; deep_todo.__all__; {LOADED}") == ""


@pytest.mark.slow
def test_a_whole_run_with_todos_does_not_load_redis() -> None:
    code = """
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
import deep_backends, deep_todo
from deep_core import Kernel, create_default_deps

def model(messages, info):
    if len(messages) > 1:
        return ModelResponse([TextPart("done")])
    return ModelResponse([ToolCallPart("write_todos", {"todos": [{"content": "A", "status": "pending"}]})])

kernel = Kernel(plugins=[deep_todo, deep_backends], discover=False, strict=True)
deps = create_default_deps()
kernel.create_agent(FunctionModel(model), backend="memory").run_sync("go", deps=deps)
assert kernel.load_deps(deps.dump()).todos[0].content == "A"
"""
    assert run(code + LOADED) == "pydantic pydantic_ai"


@pytest.mark.slow
@pytest.mark.parametrize("first", sample(["deep_todo", "pydantic_ai_todo"], "deep_todo"))
def test_the_type_is_the_packages_own_whoever_loads_it_first(first: str) -> None:
    second = {"deep_todo": "pydantic_ai_todo", "pydantic_ai_todo": "deep_todo"}[first]
    code = f"""
import pickle, {first}
a = {first}.Todo
import {second}
b = {second}.Todo
from pydantic_ai_todo.types import Todo as c
import pydantic_ai_todo.types as types
assert a is b is c is types.Todo
assert pickle.loads(pickle.dumps(a(content='x', status='pending', active_form=''))).content == 'x'
"""
    run(code)


def test_without_pydantic_ai_todo_the_error_says_what_to_install() -> None:
    code = """
import sys
import deep_todo, deep_todo.todo_type as t
t.find_spec = lambda name: None
try:
    deep_todo.Todo
except ImportError as error:
    print(error)
assert "pydantic_ai_todo.types" not in sys.modules
"""
    assert "pip install 'pydantic-ai-todo" in run(code)
