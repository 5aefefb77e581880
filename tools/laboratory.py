"""JupyterLab in headless Chromium: a page, and what a person does there.

It is driven by JupyterLab's own commands where a person would use a menu, and by mouse and keyboard
where it matters. What should not happen is noted: an error in the console, a request that leaves
this machine.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterator

from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tools.lab_server import Server

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update")  # fmt: skip
LAPTOP = {"width": 1280, "height": 800}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
NOTEBOOK = "window.jupyterapp?.shell?.currentWidget"
ACTIVE = ".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-cell.jp-mod-active"
LOST_MODEL = "widget model not found"
# JupyterLab asks a starting kernel for a subshell, and drops the question where the connection is
# renewed; a widget that would then miss its messages is noticed by the tests that drive it
RENEWED = "Canceled future for create_subshell_request"
OPENED = """path => [...(window.jupyterapp?.shell?.widgets('main') ?? [])]
    .some(widget => widget.context?.path === path)"""
CLOSE_ALL = "for (const each of [...jupyterapp.shell.widgets('main')]) each.dispose()"
GO_TO = """async wanted => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const at = notebook.widgets.findIndex(cell => cell.model.id === wanted);
    if (at < 0) throw new Error(`no cell ${wanted}`);
    notebook.deselectAll();
    notebook.activeCellIndex = at;
    await notebook.scrollToItem(at, 'center');
}"""
DO = """([command, given]) => {
    window.done = false;
    window.jupyterapp.commands.execute(command, given).then(() => { window.done = true; });
}"""
PASTE = """(editor, text) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', text);
    const options = { clipboardData, bubbles: true, cancelable: true };
    editor.dispatchEvent(new ClipboardEvent('paste', options));
}"""


class Lab:
    """A page of JupyterLab, and what happened in it that should not have."""

    def __init__(self, page: Page, server: Server | None = None, address: str = "") -> None:
        """Of a server of ours, or of another one at an address, which is then only watched."""
        self.page = page
        self.server = server
        self.address = server.address if server else address
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.models_are_lost = False
        page.on("console", lambda said: said.type == "error" and self._heard(said.text))
        page.on("pageerror", lambda error: self._heard(error.stack or str(error)))
        page.on("request", self._asked)

    def _heard(self, error: str) -> None:
        # a lost model is the console's business, as long as the page shows the still in its place
        if not (RENEWED in error or (self.models_are_lost and LOST_MODEL in error)):
            self.errors.append(error)

    def _asked(self, request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:", "about:")):
            self.foreign.append(request.url)

    def open(self, name: str) -> None:
        """Open a notebook of the server's folder and wait for its kernel.

        One that is open already is opened anew, in a page that is loaded anew.
        """
        self.server.begin(name)
        loaded = self.page.evaluate("Boolean(window.jupyterapp)")
        if loaded and not self.page.evaluate(OPENED, name):
            self.do("docmanager:open", {"path": name})
        else:
            token = f"token={self.server.token}&reset"
            self.page.goto(f"{self.address}/lab/tree/{name}?{token}")
        self._await(f"{NOTEBOOK}?.context?.isReady && {NOTEBOOK}.context.path === '{name}'")
        self._await(f"{NOTEBOOK}.sessionContext?.session?.kernel?.status === 'idle'")

    def do(self, command: str, arguments: dict | None = None) -> None:
        """Execute a command of JupyterLab and wait for its end."""
        self.page.evaluate(DO, [command, arguments or {}])
        self._await("window.done", 300)

    def run_all(self) -> None:
        """Run every cell and wait for the last one."""
        self.do("notebook:run-all-cells")

    def go_to(self, cell: str) -> Locator:
        """Bring a cell, named by its id, into view and make it the active one."""
        self.page.evaluate(GO_TO, cell)
        return self.page.locator(ACTIVE)

    def write(self, cell: str, text: str) -> None:
        """Click into a cell, select all that stands there, and paste something else."""
        self.go_to(cell)
        editor = self.page.locator(f"{ACTIVE} .cm-content")
        editor.click()
        self.page.keyboard.press("Control+a")
        editor.evaluate(PASTE, text)

    def run(self, cell: str) -> str:
        """Run a cell; the text of its output as a person sees it."""
        shown = self.go_to(cell)
        self.do("notebook:run-cell")
        output = shown.locator(".jp-Cell-outputArea")
        return output.inner_text().strip() if output.count() else ""

    def run_until(self, text: str, seconds: float = 30) -> None:
        """Run the active cell until its output has the text.

        What a view has changed reaches the kernel a moment later: no sooner than it has answered
        the change before.
        """
        output = self.page.locator(f"{ACTIVE} .jp-Cell-outputArea")
        end = time.monotonic() + seconds
        while True:
            self.do("notebook:run-cell")
            shown = output.inner_text() if output.count() else ""
            if text in shown:
                return
            if time.monotonic() > end:
                raise TimeoutError(f"after {seconds} s the cell shows {shown!r}, and not {text!r}")
            self.page.wait_for_timeout(200)

    def change_theme(self, theme: str) -> None:
        """Light or dark."""
        self.do("apputils:change-theme", {"theme": THEMES[theme]})
        self._await(f"document.body.dataset.jpThemeLight === '{str(theme == 'light').lower()}'")
        # JupyterLab covers the page meanwhile, and stumbles over a second cover before this is gone
        self._await("document.getElementById('jupyterlab-splash') === null")

    def shut_down_kernels(self) -> None:
        """End every notebook's kernel, and with it the models of its widgets."""
        self.models_are_lost = True
        self.server.shut_down_kernels()

    def leave(self) -> None:
        """Close every notebook unsaved, end the kernels, go back to light and to full size."""
        self.page.set_viewport_size(LAPTOP)
        if self.page.evaluate("document.body.dataset.jpThemeLight") == "false":
            self.change_theme("light")
        self.page.evaluate(CLOSE_ALL)
        self.server.shut_down_kernels()

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
