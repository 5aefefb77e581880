"""Tokens as labels: literal, visible, and in a font that has them or by their code points."""

import warnings

import matplotlib.pyplot as plt
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager

from course_lib.plots import cjk_font, visible
from course_lib.plots.labels import CJK_FONTS, drawable, label_axis
from course_lib.runtime import CourseNotice


def ticks(axis) -> list[str]:
    return [tick.get_text() for tick in axis.get_ticklabels()]


def draw(figure) -> None:
    """Render, where anything that matplotlib has to warn about is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()


@pytest.fixture
def small_chinese_font(tmp_path):
    """A font of two characters under a name that the course looks for, known to matplotlib."""
    pen = TTGlyphPen(None)
    for point in ((0, 0), (0, 900), (900, 900), (900, 0)):
        (pen.moveTo if point == (0, 0) else pen.lineTo)(point)
    pen.closePath()
    square = pen.glyph()
    builder = FontBuilder(1000, isTTF=True)
    names = [".notdef", "uni5E8A", "uniFF0C"]
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({0x5E8A: "uni5E8A", 0xFF0C: "uniFF0C"})
    builder.setupGlyf(dict.fromkeys(names, square))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=-100)
    builder.setupNameTable({"familyName": CJK_FONTS[0], "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "small.ttf")
    font_manager.fontManager.addfont(tmp_path / "small.ttf")
    cjk_font.cache_clear()
    return CJK_FONTS[0]


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("a", "a"),
        ("tired", "tired"),
        ("床", "床"),
        ("é", "é"),
        ("$_$", "$_$"),
        ("<img onerror>", "<img␣onerror>"),
        (" ", "␣"),
        ("\n", "⏎"),
        ("\t", "⇥"),
        ("a\nb", "a⏎b"),
        ("\r", "U+000D"),
        ("\0", "U+0000"),
        ("\x7f", "U+007F"),
        ("\u200b", "U+200B"),  # zero width
        ("\u200f", "U+200F"),  # right-to-left mark
        ("\u202e", "U+202E"),  # right-to-left override
        ("\u2066", "U+2066"),
        ("\u2028", "U+2028"),  # line separator
        ("\u2029", "U+2029"),
        ("\u00a0", "U+00A0"),  # spaces that are not the space
        ("\u3000", "U+3000"),
        ("\ufeff", "U+FEFF"),
        ("\ud800", "U+D800"),
        ("\U000e0041", "U+E0041"),
        ("\u0301", "◌\u0301"),  # an accent with nothing under it
        ("e\u0301", "e\u0301"),
        ("", ""),
    ],
)
def test_visible(label, shown):
    assert visible(label) == shown


def test_what_is_visible_has_a_form():
    for code in range(0x3000):
        assert visible(chr(code)).isprintable()


@pytest.mark.parametrize("which", ["xaxis", "yaxis"])
def test_labels_stand_at_their_ticks(which):
    figure, ax = plt.subplots()
    ax.imshow([[0.0] * 5] * 5)
    axis = getattr(ax, which)
    label_axis(axis, ["The", "$_$", " ", "road", "\n"])
    draw(figure)
    assert axis.get_ticklocs().tolist() == [0, 1, 2, 3, 4]
    assert ticks(axis) == ["The", "$_$", "␣", "road", "⏎"]
    assert not any(tick.get_parse_math() for tick in axis.get_ticklabels())


def test_many_labels_are_thinned_out():
    ax = plt.subplots()[1]
    ax.imshow([[0.0] * 141] * 2)
    label_axis(ax.xaxis, [str(i) for i in range(141)])
    assert ax.xaxis.get_ticklocs().tolist() == list(range(0, 141, 3))
    assert ticks(ax.xaxis) == [str(i) for i in range(0, 141, 3)]


def test_long_labels_lean_on_the_key_axis_only():
    ax = plt.subplots()[1]
    ax.imshow([[0.0] * 2] * 2)
    for axis, labels, rotation in (
        (ax.xaxis, ["animal", "road"], 55),
        (ax.yaxis, ["animal", "road"], 0),
        (ax.xaxis, ["a", "b"], 55),  # as before
    ):
        label_axis(axis, labels)
        assert {tick.get_rotation() for tick in axis.get_ticklabels()} == {rotation}


def test_without_a_font_code_points_are_shown_and_one_notice_is_given():
    assert cjk_font() is None
    with pytest.warns(CourseNotice, match="install one, for Chinese for example Noto") as caught:
        figure, axes = plt.subplots(1, 3)
        for ax in axes:
            ax.imshow([[0.0] * 3] * 3)
            label_axis(ax.xaxis, list("床a，"))
            label_axis(ax.yaxis, list("床a，"))
    assert len(caught) == 1
    assert ticks(axes[2].xaxis) == ticks(axes[0].yaxis) == ["U+5E8A", "a", "U+FF0C"]
    draw(figure)


def test_with_a_font_the_characters_themselves_are_shown(small_chinese_font):
    figure, ax = plt.subplots()
    ax.imshow([[0.0] * 3] * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        label_axis(ax.xaxis, list("床a，"))
    assert cjk_font() == small_chinese_font
    assert ticks(ax.xaxis) == ["床", "a", "，"]
    assert ax.get_xticklabels()[0].get_fontfamily() == ["sans-serif", small_chinese_font]
    draw(figure)


def test_what_the_chinese_font_lacks_is_shown_by_its_code_point(small_chinese_font):
    with pytest.warns(CourseNotice):
        texts, fonts = drawable(["床前", "\U0001f468"])
    assert texts == ["床U+524D", "U+1F468"]
    assert fonts == ["sans-serif", small_chinese_font]


def test_what_the_usual_font_has_needs_no_other(small_chinese_font):
    marks = "⏎␣⇥◌ é ß Ж א"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert drawable([marks]) == ([marks], ["sans-serif"])
