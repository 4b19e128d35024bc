"""Stubs of the servers that people run models without tool calls on: ollama and vLLM, at `/v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from .openai_stub import OpenAIStub
from .script import Turn

__all__ = ["OldVllmStub", "OllamaStub", "VllmStub"]


class _TextOnlyStub(OpenAIStub):
    def refusal(self, body: Mapping[str, Any]) -> str | None:
        """Refuse tools, and what the chat template of a model without tool calls cannot write."""
        if body.get("tools"):
            return self.no_tools(body)
        roles = [message["role"] for message in body["messages"] if message["role"] != "system"]
        if any(message.get("tool_calls") for message in body["messages"]) or "tool" in roles:
            return "this model's chat template knows the roles system, user and assistant"
        if any(first == second for first, second in pairwise(roles)):
            return "Conversation roles must alternate user/assistant/user/assistant/..."
        return None

    def no_tools(self, body: Mapping[str, Any]) -> str:
        """What the server says to tools."""
        raise NotImplementedError


class OllamaStub(_TextOnlyStub):
    """Ollama with a model whose template has no tools."""

    @property
    def env(self) -> dict[str, str]:
        """`OLLAMA_BASE_URL` and `NO_PROXY`."""
        return {"OLLAMA_BASE_URL": self.base_url, "NO_PROXY": "127.0.0.1"}

    def no_tools(self, body: Mapping[str, Any]) -> str:
        """Ollama names the model with its registry."""
        return f"registry.ollama.ai/library/{body['model']} does not support tools"

    def authorized(self, headers: Mapping[str, str]) -> bool:
        """Ollama asks for no key."""
        return True

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The error JSON of ollama's OpenAI-compatible API."""
        kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}

    def complete(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> dict[str, Any]:
        """A `chat.completion` with ollama's fingerprint."""
        return {**super().complete(turn, body, prompt_chars), "system_fingerprint": "fp_ollama"}


class VllmStub(_TextOnlyStub):
    """vLLM started without `--enable-auto-tool-choice`."""

    nested = True
    """Whether the error stands in `error`, as in newer versions."""

    def no_tools(self, body: Mapping[str, Any]) -> str:
        """vLLM names the flags."""
        return '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'

    def authorized(self, headers: Mapping[str, str]) -> bool:
        """vLLM asks for no key unless it was started with one."""
        return True

    def error(self, status: int, message: str) -> dict[str, Any]:
        """vLLM's error JSON."""
        kind = "BadRequestError" if status == 400 else "InternalServerError"
        facts = {"message": message, "type": kind, "param": None, "code": status}
        return {"error": facts} if self.nested else {"object": "error", **facts}

    def complete(self, turn: Turn, body: Mapping[str, Any], prompt_chars: int) -> dict[str, Any]:
        """A `chat.completion` with the keys that vLLM adds."""
        answer = super().complete(turn, body, prompt_chars)
        for choice in answer["choices"]:
            choice["message"] |= {"reasoning_content": None, "tool_calls": [], "function_call": None, "audio": None}
            choice |= {"stop_reason": None, "token_ids": None}
        return {**answer, "service_tier": None, "prompt_logprobs": None, "kv_transfer_params": None}


class OldVllmStub(VllmStub):
    """vLLM before errors were nested."""

    nested = False
