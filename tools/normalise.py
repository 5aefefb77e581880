"""From an executed notebook to the bytes that are kept: the same lesson gives the same file.

What changes by itself goes (timings, progress bars, picture software, library frames of
tracebacks). What would break in another place is refused with its cell's name (machine paths,
addresses, widgets without a picture, large files). The rest is left as the kernel gave it.
"""

from __future__ import annotations

import base64
import io
import re
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image

from tools.lesson_source import PROJECT_FOLDER, Cell, Lesson, LessonError

FORMAT = 1  # raise it when this module writes another notebook from the same lesson
PICTURE_BYTES = 60_000
PALETTE_FROM_BYTES = 20_000
NOTEBOOK_BYTES = 1_500_000
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

_KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
_LANGUAGE = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{4,}")
_PROGRESS = re.compile(r"\d+%\|.*\||\d+it \[")
_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PNG_TEXT_CHUNKS = (b"tEXt", b"zTXt", b"iTXt", b"tIME", b"eXIf")


def empty_notebook(lesson: Lesson) -> NotebookNode:
    """The notebook that a lesson asks for, before it is executed."""
    cells = []
    for cell in lesson.cells:
        make = new_code_cell if cell.kind == "code" else new_markdown_cell
        cells.append(make(cell.source, id=cell.name, metadata=cell.metadata))
    course = {"format": FORMAT, "lesson": lesson.number, "source_sha256": lesson.sha256}
    metadata = {"course": course, "kernelspec": _KERNELSPEC, "language_info": _LANGUAGE}
    return new_notebook(cells=cells, metadata=metadata)


def normalise(lesson: Lesson, executed: NotebookNode) -> str:
    """The text of the notebook file; raises LessonError with every output that cannot be kept."""
    notebook = empty_notebook(lesson)
    problems: list[str] = []
    count = 0
    for cell, target, source in zip(lesson.cells, notebook.cells, executed.cells, strict=True):
        if cell.kind != "code":
            continue
        count += 1
        target.execution_count = count
        found = list(_widget_problems(source.outputs))
        target.outputs = list(_kept_outputs(source.outputs, count))
        found += output_problems(cell, target.outputs)
        problems += [f"{lesson.where(cell)}: {problem}" for problem in found]
    text = notebook_text(notebook)
    if len(text.encode("utf-8")) >= NOTEBOOK_BYTES and not problems:
        largest = max(notebook.cells, key=lambda cell: len(str(cell)))
        problems.append(
            f"{lesson.label}: the notebook has {len(text):,} bytes, {NOTEBOOK_BYTES:,} are the "
            f"limit; the largest cell is {largest.id!r}"
        )
    if problems:
        raise LessonError(problems)
    return text


def notebook_text(notebook: NotebookNode) -> str:
    """A notebook as text: sorted keys, one space of indent, a newline at the end."""
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def _kept_outputs(outputs: list[NotebookNode], count: int) -> Iterator[NotebookNode]:
    """The outputs without what differs from run to run; streams of one name are joined."""
    stream: NotebookNode | None = None
    for output in outputs:
        if output.output_type == "stream" and stream is not None and stream.name == output.name:
            stream.text += output.text
            continue
        if stream is not None:
            yield from _kept_stream(stream)
        stream = output if output.output_type == "stream" else None
        if output.output_type == "error":
            output.traceback = [
                frame for frame in output.traceback if not _plain(frame).startswith("File ")
            ]
        elif "data" in output:
            _clean_bundle(output.data)
            if output.output_type == "execute_result":
                output.execution_count = count
        if stream is None:
            yield output
    if stream is not None:
        yield from _kept_stream(stream)


def _kept_stream(stream: NotebookNode) -> Iterator[NotebookNode]:
    lines = stream.text.split("\n")
    stream.text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    is_progress = all(_PROGRESS.search(line) for line in stream.text.split("\n") if line.strip())
    if not (stream.name == "stderr" and is_progress):
        yield stream


def _widget_problems(outputs: list[NotebookNode]) -> Iterator[str]:
    for output in outputs:
        mimes = set(output.get("data", {}))
        if WIDGET_VIEW in mimes and not any(m.startswith(("image/", "text/html")) for m in mimes):
            yield (
                "shows a widget that has no static picture, and a stored widget cannot be opened "
                "again; give it a PNG or HTML representation"
            )


def _clean_bundle(data: NotebookNode) -> None:
    """Keep what a widget shows without its kernel, and of a picture only what is drawn."""
    data.pop(WIDGET_VIEW, None)
    if "image/png" in data:
        png = stripped_png(with_palette(base64.b64decode(data["image/png"])))
        data["image/png"] = base64.b64encode(png).decode("ascii")


def with_palette(png: bytes) -> bytes:
    """A large PNG in 256 colours, on white: a third of the bytes, and no difference to the eye."""
    if len(png) < PALETTE_FROM_BYTES or not png.startswith(_PNG_SIGNATURE):
        return png
    picture = Image.open(io.BytesIO(png)).convert("RGBA")
    flat = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    small = io.BytesIO()
    flat.quantize(256, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return min(small.getvalue(), png, key=len)


def stripped_png(png: bytes) -> bytes:
    """A PNG without its text and time chunks (the name and version of what wrote it)."""
    if not png.startswith(_PNG_SIGNATURE):
        return png
    kept, position = [_PNG_SIGNATURE], len(_PNG_SIGNATURE)
    while position < len(png):
        (length,) = struct.unpack(">I", png[position : position + 4])
        end = position + 12 + length
        if png[position + 4 : position + 8] not in _PNG_TEXT_CHUNKS:
            kept.append(png[position:end])
        position = end
    return b"".join(kept)


def output_problems(cell: Cell, outputs: list[NotebookNode]) -> Iterator[str]:
    """Why outputs cannot be kept, if they cannot."""
    raised = any(output.output_type == "error" for output in outputs)
    if "raises-exception" in cell.tags and not raised:
        yield "is tagged raises-exception and raised nothing; delete the tag"
    for output in outputs:
        if output.output_type == "stream" and output.name == "stderr":
            line = output.text.strip().split("\n")[-1]
            yield f"wrote to standard error ({line!r}); mend the cause, or catch it and print it"
        for text in _texts(output):
            yield from _place_problems(text)
        yield from picture_problems(output)


def picture_problems(output: NotebookNode) -> Iterator[str]:
    """Which pictures of an output are over the limit."""
    for mime, value in output.get("data", {}).items():
        if mime.startswith("image/"):
            size = len(value) if mime.endswith("xml") else len(base64.b64decode(value))
            if size >= PICTURE_BYTES:
                yield (
                    f"its picture has {size:,} bytes, the limit is {PICTURE_BYTES:,}; draw fewer "
                    "points, a smaller figure, or a lower dpi"
                )


def _texts(output: NotebookNode) -> Iterator[str]:
    if output.output_type == "stream":
        yield output.text
    elif output.output_type == "error":
        yield _plain("\n".join([output.evalue, *output.traceback]))
    else:
        yield from (
            str(value) for mime, value in output.data.items() if not mime.startswith("image/p")
        )


def _plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def _machine_folders() -> set[str]:
    """Folders that are elsewhere on another machine."""
    folders = {PROJECT_FOLDER, Path.home(), Path(tempfile.gettempdir()), Path(sys.prefix)}
    folders |= {folder.resolve() for folder in folders}
    folders = {folder for folder in folders if len(folder.parts) > 1}
    return {str(folder) for folder in folders} | {folder.as_posix() for folder in folders}


def _place_problems(text: str) -> Iterator[str]:
    address = _ADDRESS.search(text)
    if address:
        yield f"shows a memory address ({address[0]}); show what is stable, or end with plt.show()"
    for folder in sorted(_machine_folders()):
        if re.search(rf"(?<![\w./\\-]){re.escape(folder)}(?![\w-])", text):
            yield f"shows a folder of this machine ({folder}); print the path's name alone"
            break
