"""A live section that computes for 50 ms on the event loop."""

import time
from typing import Any

from deep_core import PromptSection, hookimpl


def primes(ctx: Any) -> str:
    end, found, number = time.perf_counter() + 0.05, 0, 2
    while time.perf_counter() < end:
        found += all(number % divisor for divisor in range(2, number))
        number += 1
    return "There are prime numbers."


@hookimpl
def deep_prompt_sections() -> list[PromptSection]:
    return [PromptSection.live("primes", primes)]
