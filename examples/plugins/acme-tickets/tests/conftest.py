"""A service of tickets, as a real server of this process."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Tickets(ThreadingHTTPServer):
    """Tickets behind a login; `expire()` makes the token old."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tickets = {1: "The door is stuck"}
        self.logins = 0

    @property
    def token(self):
        return f"token-{self.logins}"

    def expire(self):
        self.logins += 1


class Handler(BaseHTTPRequestHandler):
    server: Tickets

    def do_GET(self):
        self._answer()

    def do_POST(self):
        self._answer()

    def _answer(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size) or b"{}")
        code, said = self._act(body)
        data = json.dumps(said).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _act(self, body):
        tickets = self.server.tickets
        if self.path == "/login":
            if body != {"user": "agent", "password": "sesame"}:
                return 403, "no"
            self.server.logins += 1
            return 200, {"token": self.server.token}
        if self.headers.get("Authorization") != f"Bearer {self.server.token}" or not self.server.logins:
            return 401, "log in"
        if self.path == "/tickets" and self.command == "GET":
            return 200, [{"number": number, "title": title} for number, title in tickets.items()]
        if self.path == "/tickets":
            number = max(tickets, default=0) + 1
            tickets[number] = body["title"]
            return 200, {"number": number}
        number = int(self.path.split("/")[2])
        if tickets.pop(number, None) is None:
            return 404, f"no ticket {number}"
        return 200, {}

    def log_message(self, format, *args):
        pass


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setenv("TICKETS_PASSWORD", "sesame")
    server = Tickets()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def options(service):
    return {"url": f"http://127.0.0.1:{service.server_port}"}
