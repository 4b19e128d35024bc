"""pydantic-evals' own verdicts: reads lines of JSON, `[output, expected, evaluators]`; prints `{"name": bool, …}`."""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from typing import Any


async def main() -> None:
    """Judge each line."""
    datasets: Any = import_module("pydantic_evals").Dataset
    for line in sys.stdin:
        output, expected, evaluators = json.loads(line)
        case = {"inputs": "x", "expected_output": expected, "evaluators": evaluators}
        dataset: Any = datasets[Any, Any, Any].from_dict({"name": "oracle", "cases": [case]})

        async def task(inputs: object, said: object = output) -> object:
            return said

        (judged,) = (await dataset.evaluate(task, progress=False)).cases
        print(json.dumps({name: each.value for name, each in judged.assertions.items()}))


if __name__ == "__main__":
    asyncio.run(main())
