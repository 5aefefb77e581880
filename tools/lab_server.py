"""A JupyterLab of one's own: on a free port, all its folders below one that is given.

Notebooks, settings, progress and IPython's start-up files lie there, and nothing of the user's is
read or written. A kernel takes seconds to start and to import torch, so a spare one waits, already
warm; `begin` gives it to the notebook that is opened next.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from course_lib.runtime import PROJECT_FOLDER

START_SECONDS = 120
OF_TESTS = ("COURSE_EDITION", "MPLBACKEND")  # variables that no learner has
KERNEL = {"name": "python3"}
# Imported without leaving a name: a lesson that forgets an import has to fail.
WARM = "for _name in ('torch', 'matplotlib.pyplot', 'anywidget'): __import__(_name)\ndel _name\n"
PREFERENCES = {"fetchNews": "false", "checkForUpdates": False}
# The debugger asks each kernel about itself, and complains of one that ends before it has answered.
PAGE = {"disabledExtensions": {"@jupyterlab/debugger-extension": True}}


class Server:
    """A JupyterLab on a free port, whose files, settings and progress lie in temporary folders."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "notebooks"
        self.token = secrets.token_hex(16)
        self.spare: str | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._prepare_folders()
        options = {
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.root_dir": self.folder,
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
            "KernelManager.shutdown_wait_time": 0.2,  # a kernel has nothing to lose here
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        command += [f"--{name}={value}" for name, value in options.items()]
        self.log = (self.home / "server.log").open("w")
        self.process = subprocess.Popen(
            command,
            cwd=self.home,
            env=self._environment(),
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        self._await()

    def begin(self, notebook: str) -> None:
        """Give a notebook the spare kernel, before a browser opens it, and start the next spare.

        One that has a kernel keeps it.
        """
        self.spare = self.spare or self.ask("POST", "kernels", KERNEL)["id"]
        kind = {"path": notebook, "name": notebook, "type": "notebook"}
        session = self.ask("POST", "sessions", {**kind, "kernel": {"id": self.spare}})
        if session["kernel"]["id"] == self.spare:
            self.spare = self.ask("POST", "kernels", KERNEL)["id"]

    def shut_down_kernels(self) -> None:
        """End the kernels of all notebooks."""
        for session in self.ask("GET", "sessions"):
            self.ask("DELETE", f"sessions/{session['id']}")

    def ask(self, method: str, what: str, given: Any = None) -> Any:
        """Call the server's interface; what it answers."""
        request = urllib.request.Request(
            f"{self.address}/api/{what}",
            method=method,
            headers={"Authorization": f"token {self.token}"},
            data=None if given is None else json.dumps(given).encode(),
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def stop(self) -> None:
        """End it, its kernels too."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()

    def _prepare_folders(self) -> None:
        self.folder.mkdir(parents=True)
        extension = self.home / "settings" / "@jupyterlab" / "apputils-extension"
        for file, text in {
            extension / "notification.jupyterlab-settings": json.dumps(PREFERENCES),
            self.home / "config" / "labconfig" / "page_config.json": json.dumps(PAGE),
            self.home / "ipython" / "profile_default" / "startup" / "warm.py": WARM,
        }.items():
            file.parent.mkdir(parents=True)
            file.write_text(text, encoding="utf-8")

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if name not in OF_TESTS},
            "HOME": str(self.home),
            "COURSE_HOME": str(self.home / "course"),
            "JUPYTER_CONFIG_DIR": str(self.home / "config"),
            "JUPYTER_DATA_DIR": str(self.home / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(self.home / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.home / "workspaces"),
            "IPYTHONDIR": str(self.home / "ipython"),
            "PYTHONPATH": str(PROJECT_FOLDER),
            "OMP_NUM_THREADS": "1",
        }

    def _await(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.ask("GET", "")
                return
            time.sleep(0.2)
        raise RuntimeError(
            f"JupyterLab did not start:\n{(self.home / 'server.log').read_text()[-3000:]}"
        )
