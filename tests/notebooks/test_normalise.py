"""What is kept of an executed notebook: the same bytes each time, and nothing of this machine."""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_output

from tests.notebooks.sample import make_course
from tools import normalise as module
from tools.lesson_source import PROJECT_FOLDER, LessonError, lesson_paths, read_lesson
from tools.normalise import WIDGET_VIEW, empty_notebook, normalise, stripped_png, with_palette

LESSON = '# %% [markdown] name="title"\n# # T\n\n# %% name="first"\n1\n\n# %% name="second"\n2\n'


def png(**metadata: str) -> bytes:
    figure, axes = plt.subplots(figsize=(1, 1))
    axes.plot([1, 2])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata=metadata)
    plt.close(figure)
    return buffer.getvalue()


def stream(text: str, name: str = "stdout") -> NotebookNode:
    return new_output("stream", name=name, text=text)


def shown(**data: str) -> NotebookNode:
    data = {mime.replace("_", "/", 1): value for mime, value in data.items()}
    return new_output("display_data", data=data)


def normalised(root: Path, *outputs: NotebookNode, text: str = LESSON) -> NotebookNode:
    """The notebook that is kept when the lesson's second code cell gave these outputs."""
    lesson = read_lesson(lesson_paths(make_course(root, n98_small=text))[0])
    executed = empty_notebook(lesson)
    executed.cells[-1].outputs = list(outputs)
    executed.cells[-1].execution_count = 41
    executed.cells[-1].metadata["execution"] = {"iopub.status.idle": "2020-01-01"}
    executed.metadata["widgets"] = {"state": {}}
    executed.metadata.language_info = {"name": "python", "version": "3.99"}
    return module.nbformat.reads(normalise(lesson, executed), as_version=4)


def test_ids_counts_and_metadata_are_the_lessons(tmp_path: Path) -> None:
    result = new_output("execute_result", data={"text/plain": "2"}, execution_count=41)
    notebook = normalised(tmp_path, result)
    assert [cell.id for cell in notebook.cells] == ["title", "first", "second"]
    assert [cell.get("execution_count") for cell in notebook.cells] == [None, 1, 2]
    assert notebook.cells[2].outputs[0].execution_count == 2
    assert notebook.cells[2].metadata == {}
    assert set(notebook.metadata) == {"course", "kernelspec", "language_info"}
    assert "version" not in notebook.metadata.language_info
    assert notebook.metadata.course.lesson == "98"


def test_streams_are_joined_and_keep_their_last_line(tmp_path: Path) -> None:
    outputs = [
        stream("a"),
        stream("b\n"),
        shown(text_plain="x"),
        stream("50%\r100%\n"),
        stream("c"),
    ]
    kept = normalised(tmp_path, *outputs).cells[2].outputs
    assert [output.get("text") for output in kept] == ["ab\n", None, "100%\nc"]


def test_a_progress_bar_is_not_kept(tmp_path: Path) -> None:
    bar = stream("\r 10%|#    | 1/10 [00:00<00:09]\r100%|#####| 10/10 [00:01<00:00]\n", "stderr")
    assert normalised(tmp_path, bar, stream("done")).cells[2].outputs == [stream("done")]
    assert normalised(tmp_path / "x", stream("3it [00:01, 2it/s]", "stderr")).cells[2].outputs == []


def test_a_traceback_keeps_the_cells_frames(tmp_path: Path) -> None:
    trace = [
        "---",
        "\x1b[31mCell\x1b[39m In[2], line 1",
        "\x1b[32mFile /x/lib.py:3\x1b[39m",
        "E: no",
    ]
    error = new_output("error", ename="E", evalue="no", traceback=trace)
    text = LESSON.replace('"second"', '"second" tags=["raises-exception"]')
    kept = normalised(tmp_path, error, text=text).cells[2].outputs[0].traceback
    assert kept == ["---", "\x1b[31mCell\x1b[39m In[2], line 1", "E: no"]


def test_a_picture_keeps_what_is_drawn_alone(tmp_path: Path) -> None:
    first, second = png(Software="one", Comment="x"), png(Software="another 2.0")
    assert first != second
    assert stripped_png(first) == stripped_png(second)
    assert (plt.imread(io.BytesIO(stripped_png(first))) == plt.imread(io.BytesIO(first))).all()
    assert stripped_png(b"no picture") == b"no picture"
    data = {"image_png": base64.b64encode(first).decode() + "\n"}
    kept = normalised(tmp_path, shown(**data)).cells[2].outputs[0].data["image/png"]
    assert base64.b64decode(kept) == stripped_png(first)


def test_a_large_picture_is_kept_in_256_colours_that_look_the_same() -> None:
    figure, axes = plt.subplots(figsize=(7, 6))
    axes.imshow([[row * column for row in range(40)] for column in range(40)], cmap="Blues")
    for number in range(400):
        axes.text(number % 20 * 2, number // 20 * 2, number, fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    plt.close(figure)
    small = with_palette(buffer.getvalue())
    assert len(small) < 0.6 * len(buffer.getvalue())
    assert small == with_palette(buffer.getvalue())
    before, after = (
        plt.imread(io.BytesIO(data))[:, :, :3].astype(float) for data in (buffer.getvalue(), small)
    )
    assert before.shape == after.shape and abs(before - after).mean() < 0.01
    assert with_palette(png()) == png(), "a small one stays as it is"


@pytest.mark.parametrize("mime", ["image/png", "text/html"])
def test_of_a_widget_the_static_part_is_kept(tmp_path: Path, mime: str) -> None:
    static = base64.b64encode(png()).decode() if mime == "image/png" else "<p>folded</p>"
    widget = new_output("display_data", data={WIDGET_VIEW: {"model_id": "a"}, mime: static})
    assert set(normalised(tmp_path, widget).cells[2].outputs[0].data) == {mime}


BIG = base64.b64encode(b"x" * module.PICTURE_BYTES).decode()
HOME, TEMPORARY = Path.home(), Path(tempfile.gettempdir())
REFUSED = {
    "widget": (
        new_output("display_data", data={WIDGET_VIEW: {}, "text/plain": "IntSlider()"}),
        "a widget that has no static picture",
    ),
    "warning": (stream("x.py:1: UserWarning: old\n", "stderr"), "wrote to standard error"),
    "address": (
        shown(text_plain="<Axes object at 0x7f00dead>"),
        "a memory address (at 0x7f00dead)",
    ),
    "address in html": (shown(text_html="<p>A at 0x7f00dead</p>"), "a memory address"),
    "project": (stream(f"in {PROJECT_FOLDER}\n"), "shows a folder of this machine"),
    "home": (stream(f"in {HOME / 'x'}\n"), "shows a folder of this machine"),
    "temporary": (shown(text_plain=f"'{TEMPORARY / 'x'}'"), "shows a folder of this machine"),
    "python": (stream(f"{sys.prefix}/bin\n"), "shows a folder of this machine"),
    "png": (shown(image_png=BIG), f"its picture has {module.PICTURE_BYTES:,} bytes"),
    "jpeg": (shown(image_jpeg=BIG), "its picture has"),
    "svg": (new_output("display_data", data={"image/svg+xml": BIG}), "its picture has"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_an_output_that_cannot_be_kept_is_refused(tmp_path: Path, kind: str) -> None:
    output, message = REFUSED[kind]
    with pytest.raises(LessonError) as caught:
        normalised(tmp_path, output)
    (problem,) = caught.value.problems
    assert problem.startswith("lessons/98_small.py:7: cell 'second': ")
    assert message in problem


@pytest.mark.skipif(TEMPORARY in HOME.parents, reason="a home in the temporary folder is in it")
def test_words_that_look_like_folders_are_kept(tmp_path: Path) -> None:
    text = f"the square{HOME}, https://example.org{TEMPORARY} and {HOME}-like"
    assert normalised(tmp_path, stream(text)).cells[2].outputs[0].text == text


def test_an_exception_that_did_not_come_is_refused(tmp_path: Path) -> None:
    text = LESSON.replace('"second"', '"second" tags=["raises-exception"]')
    with pytest.raises(LessonError, match="raised nothing"):
        normalised(tmp_path, stream("fine"), text=text)


def test_a_notebook_that_is_too_large_names_its_largest_cell(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match="1,500,000 are the limit; the largest cell is 'second'"):
        normalised(tmp_path, stream("x" * module.NOTEBOOK_BYTES))
