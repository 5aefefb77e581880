"""JupyterLab in headless Chromium: a server of its own, a page, and what a person does there."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from course_lib.runtime import PROJECT_FOLDER

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
START_SECONDS = 120
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update")  # fmt: skip
NOTEBOOK = "window.jupyterapp?.shell?.currentWidget"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


class Server:
    """A JupyterLab on a free port, whose files, settings and progress lie in temporary folders."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "notebooks"
        self.folder.mkdir(parents=True)
        self.token = secrets.token_hex(16)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        news = {"fetchNews": "false", "checkForUpdates": False}
        settings = self.home / "settings"
        file = settings / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(news), encoding="utf-8")
        environment = {
            **{name: value for name, value in os.environ.items() if name != "COURSE_EDITION"},
            "HOME": str(self.home),
            "COURSE_HOME": str(self.home / "course"),
            "JUPYTER_CONFIG_DIR": str(self.home / "config"),
            "JUPYTER_DATA_DIR": str(self.home / "data"),
            "JUPYTER_RUNTIME_DIR": str(self.home / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(settings),
            "JUPYTERLAB_WORKSPACES_DIR": str(self.home / "workspaces"),
            "IPYTHONDIR": str(self.home / "ipython"),
            "PYTHONPATH": str(PROJECT_FOLDER),
            "OMP_NUM_THREADS": "1",
        }
        options = {
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.root_dir": self.folder,
            "IdentityProvider.token": self.token,
            "LabApp.expose_app_in_browser": True,
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
        command += [f"--{name}={value}" for name, value in options.items()]
        self.log = (self.home / "server.log").open("w")
        self.process = subprocess.Popen(
            command, cwd=self.home, env=environment, stdout=self.log, stderr=subprocess.STDOUT
        )
        self._await()

    def _await(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{self.address}/api?token={self.token}", timeout=5).close()
                return
            time.sleep(0.2)
        raise RuntimeError(
            f"JupyterLab did not start:\n{(self.home / 'server.log').read_text()[-3000:]}"
        )

    def stop(self) -> None:
        """End it, its kernels too."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


class Lab:
    """A page of JupyterLab, and what happened in it that should not have."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page = page
        self.server = server
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))
        page.on("request", self._asked)

    def _heard(self, message) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _asked(self, request) -> None:
        if not request.url.startswith((self.server.address, "data:", "blob:", "about:")):
            self.foreign.append(request.url)

    def open(self, name: str) -> None:
        """Open a notebook of the server's folder and wait for its kernel."""
        self.page.goto(f"{self.server.address}/lab/tree/{name}?token={self.server.token}&reset")
        self._await(f"{NOTEBOOK}?.context?.isReady")
        self._await(f"{NOTEBOOK}.sessionContext?.session?.kernel?.status === 'idle'")

    def do(self, command: str, arguments: dict | None = None) -> None:
        """Execute a command of JupyterLab and wait for its end."""
        self.page.evaluate(
            "([command, given]) => { window.done = false;"
            "window.jupyterapp.commands.execute(command, given)"
            ".then(() => { window.done = true; }); }",
            [command, arguments or {}],
        )
        self._await("window.done", 300)

    def change_theme(self, theme: str) -> None:
        """Light or dark."""
        self.do("apputils:change-theme", {"theme": THEMES[theme]})
        self._await(f"document.body.dataset.jpThemeLight === '{str(theme == 'light').lower()}'")
        # JupyterLab covers the page meanwhile, and stumbles over a second cover before this is gone
        self._await("document.getElementById('jupyterlab-splash') === null")

    def shut_down_kernels(self) -> None:
        """End every kernel of the server, so that tests do not share the memory."""
        address = f"{self.server.address}/api/sessions"
        headers = {"Authorization": f"token {self.server.token}"}
        listed = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(listed, timeout=30) as answer:
            sessions = json.load(answer)
        for session in sessions:
            request = urllib.request.Request(
                f"{address}/{session['id']}", headers=headers, method="DELETE"
            )
            urllib.request.urlopen(request, timeout=30).close()

    def run_all(self) -> None:
        """Run every cell and wait for the last one."""
        self.do("notebook:run-all-cells")

    def _await(self, condition: str, seconds: float = 120) -> None:
        self.page.wait_for_function(condition, timeout=seconds * 1000)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
