"""An MCP server in plain JSON, which says what its one argument holds: no SDK would let it."""

import json
import sys

KNOBS = json.loads(sys.argv[1])
count, ready = 0, False
if "banner" in KNOBS:
    sys.stdout.buffer.write(KNOBS["banner"].encode("latin-1"))
    sys.stdout.flush()
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if KNOBS.get("legacy") and not ready and method != "initialize":
        sys.exit(1)
    ready, out = True, None
    if method == "initialize":
        info = {"serverInfo": {"name": "odd", "version": "1"}}
        out = {
            "protocolVersion": "2024-11-05", "capabilities": KNOBS.get("capabilities", {"tools": {}}),
            **KNOBS.get("greeting", info),
        }  # fmt: skip
    elif method == "ping":
        out = {}
    elif method in KNOBS.get("methods", {}):
        out = KNOBS["methods"][method]
    elif method == "tools/list" and "tools" in KNOBS:
        out = {"tools": KNOBS["tools"]}
    elif method == "tools/call":
        count += 1
        name = message["params"]["name"]
        if name in KNOBS.get("lines", {}):
            print(KNOBS["lines"][name].replace("ID", str(number)), flush=True)
            continue
        out = KNOBS.get("answers", {}).get(name, {"content": [{"type": "text", "text": str(count)}]})
    if number is not None:
        rest = {"error": {"code": -32601, "message": "Method not found"}} if out is None else {"result": out}
        print(json.dumps({"jsonrpc": "2.0", "id": number, **rest}), flush=True)
