"""An MCP server of the official SDK, over stdio. Its arguments say what it offers, and how it misbehaves.

`server.py STATE [--tools N] [--slow SECONDS] [--broken] [--unannotated] [--describe TEXT]`: STATE is a folder where
the server writes one line to `starts` for each start, and one line to `calls` for each call.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

parser = argparse.ArgumentParser()
parser.add_argument("state", type=Path)
parser.add_argument("--tools", type=int, default=0)
parser.add_argument("--slow", type=float, default=0)
parser.add_argument("--broken", action="store_true")
parser.add_argument("--port", type=int)
TEXT = {"type": "object", "properties": {"text": {"type": "string", "description": "The text."}}, "required": ["text"]}


def tool(name: str, description: str, **hints: bool) -> types.Tool:
    annotations = types.ToolAnnotations.model_validate(hints) if hints else None
    return types.Tool(name=name, description=description, input_schema=TEXT, annotations=annotations)


def make_server(state: Path, tools: int) -> Server[Any]:
    def offered() -> list[types.Tool]:
        if (instead := state / "tools.json").exists():
            return [types.Tool.model_validate(each) for each in json.loads(instead.read_text())]
        described = state / "description"
        return [
            tool("look", "Look at a text.", readOnlyHint=True, openWorldHint=True),
            tool("put", described.read_text() if described.exists() else "Put a text.", destructiveHint=False),
            tool("burn", "Burn a text.", readOnlyHint=False, destructiveHint=True),
            tool("echo", "Return a text."),
            tool("die", "End the server while it works."),
            tool("hang", "Never answer."),
            tool("fail", "Fail."),
            *(tool(f"tool_{n}", f"The tool number {n} of many, which does one thing.") for n in range(tools)),
        ]

    async def on_list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=offered())

    async def on_call_tool(ctx: Any, params: Any) -> types.CallToolResult:
        with (state / "calls").open("a") as file:
            file.write(f"{params.name}\n")
        text = (params.arguments or {}).get("text", "")
        if params.name == "die":
            os._exit(3)
        if params.name == "hang":
            await asyncio.sleep(3600)
        if params.name == "look" and (path := state / text).is_file():
            data = base64.b64encode(path.read_bytes()).decode()
            if path.suffix == ".png":
                return types.CallToolResult(content=[types.ImageContent(data=data, mime_type="image/png")])
            blob = types.BlobResourceContents(uri=f"file:///{text}", blob=data, mime_type="application/octet-stream")
            return types.CallToolResult(content=[types.EmbeddedResource(resource=blob)])
        if params.name == "fail":
            return types.CallToolResult(content=[types.TextContent(text=f"cannot {text}")], is_error=True)
        if params.name == "echo" and text.startswith("env:"):
            text = os.environ.get(text[4:], "unset")
        return types.CallToolResult(content=[types.TextContent(text=f"{params.name} {text}")])

    async def on_list_resources(ctx: Any, params: Any) -> types.ListResourcesResult:
        found = types.Resource(uri="harbor://depth", name="depth", description="Depths of ports.")
        return types.ListResourcesResult(resources=[found])

    async def on_read_resource(ctx: Any, params: Any) -> types.ReadResourceResult:
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="Oslo: 9 m")])

    async def on_list_prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
        arguments = [types.PromptArgument(name="port", required=True), types.PromptArgument(name="days")]
        report = types.Prompt(name="Write_report", description="Report on a\u202e port.\nMore.", arguments=arguments)
        return types.ListPromptsResult(prompts=[report, types.Prompt(name="greet"), types.Prompt(name="…")])

    async def on_get_prompt(ctx: Any, params: Any) -> types.GetPromptResult:
        text = f"Say hello.\u202e {dict(sorted((params.arguments or {}).items()))}"
        messages = [types.PromptMessage(role="user", content=types.TextContent(text=text))]
        if params.name == "greet":
            messages.append(types.PromptMessage(role="assistant", content=types.TextContent(text="Hello.")))
        return types.GetPromptResult(messages=messages)

    handlers: dict[str, Any] = {"on_list_tools": on_list_tools, "on_call_tool": on_call_tool}
    if (state / "resources").exists():
        handlers |= {"on_list_resources": on_list_resources, "on_read_resource": on_read_resource}
    if (state / "prompts").exists():
        handlers |= {"on_list_prompts": on_list_prompts, "on_get_prompt": on_get_prompt}
    return Server("harbor", **handlers)


async def serve(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    args = parser.parse_args()
    with (args.state / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    print("harbor starts", file=sys.stderr, flush=True)
    if args.broken:
        sys.exit("harbor is broken")
    time.sleep(args.slow)
    asyncio.run(serve(make_server(args.state, args.tools)))


if __name__ == "__main__":
    main()
