"""Store a run that waits for approval, and continue it as another process would.

python examples/approvals.py
"""

from __future__ import annotations

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import ModelMessagesTypeAdapter
from scripted import model

from deep_core import DeepAgentDeps, Kernel, ToolCall


def pay(amount: int, to: str) -> str:
    """Pay a person."""
    return f"paid {amount} to {to}"


def more_than_ten(call: ToolCall) -> bool:
    """Ask only about large sums."""
    return call.args["amount"] > 10


def decide(requests: DeferredToolRequests, limit: int) -> DeferredToolResults:
    """Approve everything up to a limit, in place of a person."""
    results = DeferredToolResults()
    for call in requests.approvals:
        amount = call.args_as_dict()["amount"]
        results.approvals[call.tool_call_id] = True if amount <= limit else ToolDenied(f"{amount} is too much")
        verdict = "approved" if amount <= limit else "denied"
        print(f"asked: {call.tool_name} {call.args_as_dict()} -> {verdict}")
    return results


def converse(agent: Agent[DeepAgentDeps[None], str | DeferredToolRequests], limit: int) -> str:
    """Run one task until no call waits."""
    deps: DeepAgentDeps[None] = DeepAgentDeps()
    result = agent.run_sync("Pay Ann 90.", deps=deps)
    while isinstance(result.output, DeferredToolRequests):
        # Store these two strings while the person thinks.
        kept, conversation = deps.dump(), result.all_messages_json()
        decisions = decide(result.output, limit)
        deps = DeepAgentDeps[None].load(kept)
        history = ModelMessagesTypeAdapter.validate_json(conversation)
        result = agent.run_sync(deps=deps, message_history=history, deferred_tool_results=decisions)
    returned = [p.content for m in result.all_messages() for p in m.parts if p.part_kind == "tool-return"]
    return f"tool: {returned[-1]}; agent: {result.output}"


def main() -> None:
    """Run the same task with a generous and with a careful person."""
    with Kernel(discover=False) as kernel:
        agent = kernel.create_agent(
            model(("pay", {"amount": 90, "to": "Ann"}), "That is what happened."),
            tools=[pay],
            interrupt_on={"pay": more_than_ten},
        )
        for limit in (100, 50):
            print(converse(agent, limit))


if __name__ == "__main__":
    main()
