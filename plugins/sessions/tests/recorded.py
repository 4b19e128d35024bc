# ruff: noqa: E501 - what others said stays in its lines
"""What providers answered to failing requests, as their users reported it: an example for every line of the tables."""

from __future__ import annotations

from typing import Any, NamedTuple


class Recorded(NamedTuple):
    """An answer, and the end that it means.

    Attributes:
        name: of the example: the provider, then what it is about.
        status: the HTTP status; 200 for an error in a stream.
        body: the body, or what the SDK makes of it.
        kind: of the end.
        code: of the end.
        window: that the provider says, in tokens.
        tokens: of the request, that the provider says.
        headers: of the answer.
        retry_after: seconds that it asks to wait.
        refused: whether the provider says it about itself.
    """

    name: str
    status: int
    body: Any
    kind: str
    code: str
    window: int | None = None
    tokens: int | None = None
    headers: dict[str, str] | None = None
    retry_after: float | None = None
    refused: bool = False


def _error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


def _full(name: str, status: int, body: Any, window: int | None = None, tokens: int | None = None) -> Recorded:
    return Recorded(name, status, body, "overflow", "window_full", window, tokens)


RECORDED = (
    _full(
        "openai chat: window",
        400,
        {
            "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 "
            "tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
        128_000,
        204_308,
    ),
    _full(
        "openai responses: window",
        400,
        {
            "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "type": "invalid_request_error",
            "param": "input",
        },
    ),
    _full("openai responses: code alone", 400, {"message": "Invalid request.", "code": "context_length_exceeded"}),
    _full(
        "deepseek: words of openai",
        400,
        _error(
            "This model's maximum context length is 65536 tokens. However, you requested 69648 tokens (69648 in the "
            "messages, 0 in the completion). Please reduce the length of the messages or completion."
        ),
        65_536,
        69_648,
    ),
    _full(
        "openrouter: window",
        400,
        _error(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about 140310 tokens "
            '(139286 of text input, 1024 in the output). Please reduce the length of either one, or use the "middle-out" '
            "transform to compress your prompt automatically.",
            code=400,
        ),
        131_072,
        140_310,
    ),
    _full(
        "anthropic: window",
        400,
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 210266 tokens > 200000 maximum"},
        },
        200_000,
        210_266,
    ),
    _full(
        "anthropic: input and max_tokens",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input "
                "length or `max_tokens` and try again",
            },
        },
        200_000,
        188_240,
    ),
    _full(
        "anthropic: bytes",
        413,
        {
            "type": "error",
            "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"},
        },
    ),
    _full(
        "gemini: window",
        400,
        _error(
            "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
            code=400,
            status="INVALID_ARGUMENT",
        ),
        1_048_576,
        1_200_293,
    ),
    _full(
        "bedrock: window",
        400,
        {
            "Error": {
                "Code": "ValidationException",
                "Message": "The model returned the following errors: Input is too long for requested model.",
            }
        },
    ),
    _full(
        "bedrock: words of anthropic",
        400,
        {
            "Error": {
                "Code": "ValidationException",
                "Message": "The model returned the following errors: prompt is too long: 200049 tokens > 200000 maximum",
            }
        },
        200_000,
        200_049,
    ),
    _full(
        "vllm: max_tokens",
        400,
        _error(
            "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 "
            "tokens and your request has 7000 input tokens (4096 > 8192 - 7000).",
            type="BadRequestError",
            code=400,
        ),
        8192,
        7000,
    ),
    _full(
        "vllm: at least",
        400,
        _error(
            "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens, "
            "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "
            "(parameter=input_tokens, value=2049)",
            type="BadRequestError",
            code=400,
        ),
        2048,
    ),
    _full(
        "vllm: prompt",
        400,
        _error(
            "The decoder prompt (length 9021) is longer than the maximum model length of 8192. Make sure that "
            "`max_model_len` is no smaller than the number of text tokens.",
            type="BadRequestError",
            code=400,
        ),
        8192,
        9021,
    ),
    _full(
        "llama.cpp: with numbers",
        400,
        _error(
            "request (9124 tokens) exceeds the available context size (8192 tokens), try increasing it",
            code=400,
            type="exceed_context_size_error",
            n_prompt_tokens=9124,
            n_ctx=8192,
        ),
        8192,
        9124,
    ),
    _full(
        "llama.cpp: fields alone",
        400,
        _error(
            "the request exceeds the available context size. try increasing the context size or enable context shift",
            code=400,
            type="exceed_context_size_error",
            n_prompt_tokens=9124,
            n_ctx=8192,
        ),
        8192,
    ),
    _full("ollama: window", 400, _error("the input length exceeds the context length", type="api_error")),
    _full("ollama: status 500", 500, _error("input exceeds context length", type="api_error")),
    _full(
        "lmstudio: window",
        400,
        {
            "error": "Trying to keep the first 15857 tokens when context the overflows. However, the model is loaded with "
            "context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, "
            "or provide a shorter input"
        },
        4096,
        15_857,
    ),
    _full(
        "lmstudio: n_keep",
        400,
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: "
            "13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."
        },
        4096,
        13_055,
    ),
    _full(
        "mistral: window",
        400,
        {
            "object": "error",
            "message": "Prompt contains 150012 tokens and 0 draft tokens, too large for model with 131072 maximum context "
            "length",
            "type": "invalid_request_prompt",
            "code": "3051",
        },
        131_072,
        150_012,
    ),
    _full(
        "xai: window",
        400,
        {"error": "This model's maximum prompt length is 131072 but the request contains 150000 tokens."},
        131_072,
        150_000,
    ),
    _full(
        "sglang: window",
        400,
        {"message": "The input (9000 tokens) is longer than the model's context length (8192 tokens)."},
        8192,
        9000,
    ),
    _full(
        "tgi: window",
        422,
        _error(
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 6204 `inputs` tokens and "
            "2047 `max_new_tokens`",
            error_type="validation",
        ),
        8192,
        6204,
    ),
    _full(
        "groq: limit of a minute",
        413,
        _error(
            "Request too large for model `llama-3.3-70b-versatile` on tokens per minute (TPM): Limit 6000, Requested "
            "7121, please reduce your message size and try again.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        6000,
        7121,
    ),
    Recorded(
        "openai: rate limit",
        429,
        {"message": "Rate limit reached for requests", "type": "requests", "code": "rate_limit_exceeded"},
        "transient",
        "rate_limited",
        headers={"Retry-After": "20"},
        retry_after=20,
        refused=True,
    ),
    Recorded(
        "gateway: fractions of a second",
        429,
        _error("slow down"),
        "transient",
        "rate_limited",
        headers={"Retry-After": "1.5"},
        retry_after=1.5,
        refused=True,
    ),
    Recorded(
        "openai: no credit",
        429,
        {
            "message": "You exceeded your current quota, please check your plan and billing details.",
            "type": "insufficient_quota",
            "code": "insufficient_quota",
        },
        "permanent",
        "no_credit",
    ),
    Recorded(
        "anthropic: no credit",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API.",
            },
        },
        "permanent",
        "no_credit",
    ),
    Recorded(
        "openrouter: no credit",
        402,
        _error("This request requires more credits, or fewer max_tokens.", code=402),
        "permanent",
        "no_credit",
    ),
    Recorded(
        "anthropic: overloaded",
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "transient",
        "overloaded",
        refused=True,
    ),
    Recorded(
        "gemini: overloaded",
        503,
        _error("The model is overloaded. Please try again later.", code=503, status="UNAVAILABLE"),
        "transient",
        "overloaded",
        refused=True,
    ),
    Recorded("llama.cpp: loading", 503, _error("Loading model"), "transient", "unavailable", refused=True),
    Recorded("proxy: bad gateway", 502, "<html>502 Bad Gateway</html>", "transient", "unavailable", refused=True),
    Recorded("proxy: gateway timeout", 504, "upstream timed out", "transient", "unavailable", refused=True),
    Recorded("cloudflare: 520", 520, "<html>error code: 520</html>", "transient", "unavailable", refused=True),
    Recorded("openai: server error", 500, _error("The server had an error"), "transient", "server_error"),
    Recorded("timeout", 408, _error("Request timed out"), "transient", "timed_out"),
    Recorded("conflict", 409, _error("Conflict"), "transient", "conflict"),
    Recorded("too early", 425, _error("Too early"), "transient", "conflict"),
    Recorded(
        "openai: key",
        401,
        {"message": "Incorrect API key provided: sk-12*******cdef.", "type": "invalid_request_error"},
        "permanent",
        "unauthorized",
    ),
    Recorded(
        "anthropic: key without the model",
        403,
        {"type": "error", "error": {"type": "permission_error", "message": "Your API key does not have permission"}},
        "permanent",
        "unauthorized",
    ),
    Recorded(
        "openai: model",
        404,
        {"message": "The model `gpt-9` does not exist or you do not have access to it.", "code": "model_not_found"},
        "permanent",
        "unknown_model",
    ),
    Recorded(
        "openai: wrong field",
        400,
        {"message": "Unsupported parameter: 'max_tokens'", "type": "invalid_request_error", "param": "max_tokens"},
        "permanent",
        "rejected",
    ),
    Recorded("fastapi: wrong field", 422, {"detail": [{"msg": "Field required"}]}, "permanent", "rejected"),
    Recorded("teapot", 418, _error("I'm a teapot"), "permanent", "rejected"),
)
