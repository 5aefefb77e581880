"""JupyterLab on the learner's folder: a port that is free, an address that works, a clean end.

The server listens on this machine only (127.0.0.1) and keeps Jupyter's token. The address is
printed once the server behind it has accepted that token: no other server can be taken for it.
"""

import contextlib
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from launcher.environment import Environment
from launcher.report import StartError, say

HOST = "127.0.0.1"
FIRST_PORT = 8888
LAST_PORT = 8987
PATIENCE = 180  # seconds; a cold disk and a virus scanner can take a minute


def is_free(port: int) -> bool:
    """Whether a server could listen here: nobody answers, and the port can be bound.

    Both are asked: on some systems a port can be bound where a server listens on all addresses.
    """
    with socket.socket() as probe:
        probe.settimeout(2)
        if probe.connect_ex((HOST, port)) == 0:
            return False
    with socket.socket() as probe:
        if os.name == "posix":  # as Jupyter does: else a server that just ended blocks its port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def require_free(port: int) -> None:
    """Raise StartError when the port that was asked for cannot be had."""
    if not is_free(port):
        raise StartError(
            f"port {port} is taken or not allowed; choose another, or leave out --port and "
            f"start.py finds a free one from {FIRST_PORT} on"
        )


def free_ports() -> Iterator[int]:
    """Ports that are free at this moment, from the usual one on."""
    return (port for port in range(FIRST_PORT, LAST_PORT + 1) if is_free(port))


def serve(
    environment: Environment, work: Path, notebook: str | None, port: int | None, browser: bool
) -> int:
    """Run JupyterLab in `work`, with `notebook` open, until it ends or Ctrl-C: its exit code."""
    for candidate in [port] if port else free_ports():
        server = Server(environment, work, notebook, candidate, browser)
        try:
            if server.answers():
                return server.watch()
        except KeyboardInterrupt:
            return 0
        finally:
            server.stop()
        if is_free(candidate):
            raise StartError(
                f"JupyterLab ended at once (exit code {server.process.returncode}); what it said "
                f"is above. If nothing helps, delete {environment.folder} and start again"
            )
        # Someone took the port between the look and the start: the next one, if we may choose.
    if port:
        require_free(port)
    raise StartError(f"no port from {FIRST_PORT} to {LAST_PORT} is free; name one with --port")


class Server:
    """A JupyterLab process on one port."""

    def __init__(
        self, environment: Environment, work: Path, notebook: str | None, port: int, browser: bool
    ) -> None:
        self.work, self.notebook, self.port, self.browser = work, notebook, port, browser
        self.token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
        options = {
            "ip": HOST,
            "port": port,
            "port_retries": 0,  # the choice is ours, so that the address printed is right
            "root_dir": work,
            "base_url": "/",
            "open_browser": browser,
        }
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            options["allow_root"] = True
        command = [str(environment.python), "-P", "-m", "jupyterlab"]
        command += [f"--ServerApp.{name}={value}" for name, value in options.items()]
        command += ["--Application.log_level=ERROR"]  # its warnings are not for learners
        command += [notebook] if notebook else []
        self.process = subprocess.Popen(
            command,
            cwd=work,
            env=environment.variables() | {"JUPYTER_TOKEN": self.token},
            # Ctrl-C is for start.py, which ends the server in order. On Windows both get it.
            start_new_session=os.name == "posix",
        )

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        page = f"/lab/tree/{quote(self.notebook)}" if self.notebook else "/lab"
        return f"http://{HOST}:{self.port}{page}?token={self.token}"

    def answers(self) -> bool:
        """Wait until it answers; False when it ended instead."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            if self.is_up():
                return True
            if time.monotonic() > deadline:
                raise StartError(
                    f"JupyterLab has not answered within {PATIENCE} seconds; try once more"
                )
            time.sleep(0.1)
        return False

    def is_up(self) -> bool:
        """Whether a Jupyter server that knows our token answers."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        try:
            headers = {"Authorization": f"token {self.token}"}
            connection.request("GET", "/api/status", headers=headers)
            response = connection.getresponse()
            return response.status == 200 and "started" in json.load(response)
        except (OSError, ValueError, TypeError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def watch(self) -> int:
        """Say where it is, and wait until it ends."""
        if self.browser:
            say("JupyterLab is running. If no browser window opens, open this address yourself:")
        else:
            say("JupyterLab is running. Open this address in a browser:")
        say(f"\n    {self.address}\n")
        say(f"Your notebooks are in {self.work}. To stop: Ctrl-C in this window.")
        code = self.process.wait()
        say("JupyterLab has stopped.")
        return code

    def stop(self) -> None:
        """End it, with its kernels, if it is still running."""
        if self.process.poll() is not None:
            return
        say("\nStopping JupyterLab ...")
        if os.name == "posix" and not self.ask_to_end():
            self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask_to_end(self) -> bool:
        """Ask it to end over its own interface, for of a signal it would print a line of its own.

        False when it cannot be asked, because it does not listen yet.
        """
        connection = http.client.HTTPConnection(HOST, self.port, timeout=20)
        try:
            headers = {"Authorization": f"token {self.token}"}
            connection.request("POST", "/api/shutdown", headers=headers)
        except OSError:
            return False
        else:
            with contextlib.suppress(OSError, http.client.HTTPException):  # it may end unanswered
                return connection.getresponse().status == 200
            return True
        finally:
            connection.close()


def end_like_ctrl_c() -> None:
    """Let a closed terminal window and a plain kill end the server as Ctrl-C does."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            signal.signal(number, signal.default_int_handler)
