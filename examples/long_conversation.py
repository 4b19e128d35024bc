"""Hold a long conversation: near the limit, a summary replaces its beginning, and a file keeps what was cut.

python examples/long_conversation.py
"""

from __future__ import annotations

from deep_backends import memory_backend
from deep_summarization import SummarizationOptions, is_summary
from pydantic_ai import TextContent
from pydantic_ai.messages import ModelMessage, UserPromptPart
from scripted import model

from deep_core import create_deep_agent, create_default_deps

STORY = "Then we walked along the fjord, looked at the boats, ate a waffle, and it rained a little. " * 8


def main() -> None:
    """Run nine turns in a window that holds five."""
    agent = create_deep_agent(
        model("You plan a trip to Oslo in May, for 900 euros."),
        # By default the trigger is 85 % of the model's window. These small sizes show it at work.
        plugins=[SummarizationOptions(trigger=(("messages", 11),), keep=("messages", 4))],
    )
    backend = memory_backend()
    deps = create_default_deps(backend=backend)
    history: list[ModelMessage] = []
    longest = 0
    for turn in range(9):
        prompt = f"Day {turn}: {STORY}" if turn else "I plan a trip to Oslo in May, for 900 euros."
        # Use all_messages(), not a sum of new_messages(): only all_messages() contains the summary.
        history = agent.run_sync(prompt, deps=deps, message_history=history).all_messages()
        longest = max(longest, len(history))
    print(f"18 messages were sent and received; the history never had more than {longest}")
    for part in history[0].parts:
        if isinstance(part, UserPromptPart) and is_summary(part):
            print("it begins with a summary:")
            print("\n".join(text.content for text in part.content if isinstance(text, TextContent)))
    print("kept:", sum(path.endswith(".json") for path in backend.snapshot()), "files")


if __name__ == "__main__":
    main()
