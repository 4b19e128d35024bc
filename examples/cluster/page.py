"""The page for many users, in this cluster: `uvicorn examples.cluster.page:app`. One process: files are on its disk."""

import os
from pathlib import Path

from examples.server.app import create_server
from examples.server.settings import Settings

app = create_server(
    Settings(data=Path(os.environ["DATA"]), store=os.environ["STORE"], hosts=tuple(os.environ["HOSTS"].split(",")))
)
