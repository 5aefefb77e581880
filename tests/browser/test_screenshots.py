"""The maintainers' screenshots: a picture of each screenful, and never one in the repository."""

from __future__ import annotations

import pytest
from PIL import Image

from course_lib.runtime import PROJECT_FOLDER
from tools.screenshots import main, shoot


def test_each_screenful_is_a_picture(lab, notebook, tmp_path):
    lab.open(notebook("print('\\n' * 40)", "print('\\n' * 40)"))
    lab.run_all()
    pictures = shoot(lab, tmp_path, "00-light")
    assert [path.name for path in pictures[:2]] == ["00-light-01.png", "00-light-02.png"]
    sizes = {Image.open(path).size for path in pictures}
    assert sizes == {(1280, 800)}
    assert pictures[0].read_bytes() != pictures[1].read_bytes()


def test_what_cannot_be_is_refused(capsys, tmp_path):
    assert main(["99", "--to", str(tmp_path)]) == 2
    assert "there is no lesson 99" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["00", "--to", str(PROJECT_FOLDER / "lessons" / "pictures")])
    assert "is in the repository" in capsys.readouterr().err
    assert not (PROJECT_FOLDER / "lessons" / "pictures").exists()
