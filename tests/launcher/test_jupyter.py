"""A port that is free, an address that works, a clean end."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

from launcher import jupyter
from launcher.report import StartError

ROOT = Path(jupyter.__file__).parent.parent
NOTEBOOK = "00 开始 it's.ipynb"


@pytest.fixture
def taken():
    """A port with a server on it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_port_with_a_server_is_not_free(taken):
    assert not jupyter.is_free(taken)
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        assert not jupyter.is_free(everywhere.getsockname()[1])


def test_a_port_that_was_just_left_is_free():
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as server:
        client = socket.create_connection(("127.0.0.1", port))
        server.accept()[0].close()  # the server's side ends first and lingers
        client.close()
    assert jupyter.is_free(port)


def test_the_ports_tried_begin_at_the_first_free_one(taken, monkeypatch):
    monkeypatch.setattr(jupyter, "FIRST_PORT", taken)
    monkeypatch.setattr(jupyter, "LAST_PORT", taken + 50)
    found = next(jupyter.free_ports())
    assert taken < found <= taken + 50


def test_a_port_asked_for_and_taken_is_an_error(taken):
    with pytest.raises(StartError, match=f"port {taken} is taken.*--port"):
        jupyter.require_free(taken)


class Ended:
    """A server that ended before it answered, on ports that someone else took meanwhile."""

    tried: list[int]
    survives_on = None

    def __init__(self, environment, work, notebook, port, browser):
        self.port, self.process = port, SimpleNamespace(returncode=1)
        self.tried.append(port)

    def answers(self):
        return self.port == self.survives_on

    def watch(self):
        return 0

    def stop(self):
        pass


@pytest.fixture
def ended(monkeypatch):
    monkeypatch.setattr(jupyter, "Server", Ended)
    monkeypatch.setattr(Ended, "tried", [], raising=False)
    return Ended


def serve(port=None):
    return jupyter.serve(SimpleNamespace(folder=Path(".venv")), Path("work"), None, port, False)


def test_a_port_lost_to_another_program_means_the_next_one(ended, monkeypatch):
    monkeypatch.setattr(jupyter, "free_ports", lambda: iter([1, 2, 3]))
    monkeypatch.setattr(jupyter, "is_free", lambda port: False)
    monkeypatch.setattr(ended, "survives_on", 2)
    assert serve() == 0 and ended.tried == [1, 2]


def test_a_port_asked_for_and_lost_is_an_error(ended, monkeypatch):
    monkeypatch.setattr(jupyter, "is_free", lambda port: False)
    with pytest.raises(StartError, match="port 4000 is taken"):
        serve(4000)
    assert ended.tried == [4000]


def test_all_ports_taken_is_said(ended, monkeypatch):
    monkeypatch.setattr(jupyter, "free_ports", lambda: iter([]))
    with pytest.raises(StartError, match="no port from 8888"):
        serve()


def test_a_server_that_ends_at_once_is_not_tried_again(ended, monkeypatch):
    monkeypatch.setattr(jupyter, "is_free", lambda port: True)
    with pytest.raises(StartError, match=r"ended at once \(exit code 1\)"):
        serve()
    assert len(ended.tried) == 1


def get(address: str, token: bool) -> int:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request("GET", f"{parts.path}?{parts.query}" if token else parts.path)
    status = connection.getresponse().status
    connection.close()
    return status


SERVE = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from launcher import jupyter
environment = SimpleNamespace(python=sys.executable, variables=lambda: dict(os.environ))
jupyter.FIRST_PORT = int(sys.argv[2])
jupyter.LAST_PORT = jupyter.FIRST_PORT + 50
jupyter.end_like_ctrl_c()
sys.exit(jupyter.serve(environment, Path(sys.argv[1]), sys.argv[3], None, False))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals to another process are different there")
@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_the_address_works_with_its_token_until_ctrl_c(tmp_path, taken, ending):
    work = tmp_path / "学 习 é" / "it's"
    work.mkdir(parents=True)
    (work / NOTEBOOK).write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    environment = os.environ | {"HOME": str(tmp_path), "http_proxy": "http://127.0.0.1:9"}
    environment.pop("JUPYTER_TOKEN", None)
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, work, str(taken), NOTEBOOK],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as start:
        try:
            said = ""
            while "To stop" not in said:
                line = start.stdout.readline()
                assert line, f"it ended early: {said}"
                said += line
            address = re.search(r"http://127\.0\.0\.1:\S+", said)[0]
            assert urlsplit(address).port > taken
            assert unquote(urlsplit(address).path) == f"/lab/tree/{NOTEBOOK}"
            assert get(address, token=True) == 200
            assert get(address, token=False) in (302, 403)
            if ending == "SIGHUP":  # the terminal is closed, so nothing can be said any more
                start.stdout.close()
            start.send_signal(getattr(signal, ending))
            start.wait(timeout=60)
            assert ending == "SIGHUP" or start.returncode == 0
            assert "received signal" not in start.stderr.read()
        finally:
            start.terminate()  # which also ends the server, should an assertion have failed
    with pytest.raises(ConnectionRefusedError):
        get(address, token=True)
