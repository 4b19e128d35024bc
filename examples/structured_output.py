"""Get an answer as data: a validated pydantic model.

python examples/structured_output.py
"""

from __future__ import annotations

from pydantic import BaseModel, Field
from scripted import model

from deep_core import Kernel, create_default_deps


class Invoice(BaseModel):
    """The data of an invoice."""

    customer: str
    total: float = Field(ge=0)


def main() -> None:
    """Read an invoice from a sentence."""
    with Kernel(discover=False) as kernel:
        agent = kernel.create_agent(
            model(
                (
                    "final_result",
                    {"customer": "Acme", "total": -1},
                ),  # the model's own rule rejects this, and the agent asks again
                ("final_result", {"customer": "Acme", "total": 129.5}),
            ),
            output_type=Invoice,
            interrupt_on=False,  # no call waits for a person, so the output type is only Invoice
        )
        result = agent.run_sync("Acme owes us 129.50.", deps=create_default_deps(kernel=kernel))
    invoice = result.output
    print(f"{type(invoice).__name__}: {invoice.customer} {invoice.total:.2f}")
    print(f"{result.usage.requests} requests")


if __name__ == "__main__":
    main()
