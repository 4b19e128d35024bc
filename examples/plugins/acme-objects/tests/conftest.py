"""An object store, as a real server of this process."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        objects, parts = self.server.objects, urlsplit(self.path)
        if parts.query:
            prefix = parse_qs(parts.query, keep_blank_values=True)["prefix"][0]
            found = {key: len(data) for key, data in objects.items() if key.startswith(prefix)}
            return self._answer(200, json.dumps(found).encode())
        data = objects.get(self._key)
        return self._answer(404, b"") if data is None else self._answer(200, data)

    def do_PUT(self):
        self.server.objects[self._key] = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._answer(200, b"")

    def do_DELETE(self):
        self.server.objects.pop(self._key, None)
        self._answer(200, b"")

    @property
    def _key(self):
        return unquote(urlsplit(self.path).path).removeprefix("/bucket/")

    def _answer(self, code, data):
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.objects = {}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.server_port}/bucket"
