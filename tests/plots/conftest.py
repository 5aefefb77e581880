"""Figures are closed after each test, and each begins with the fonts that matplotlib brings."""

import matplotlib.pyplot as plt
import pytest
from matplotlib import font_manager

from course_lib.plots import labels


@pytest.fixture(autouse=True)
def _fresh_figures(monkeypatch):
    """No Chinese font, whatever this machine has; a notice that was given may be given again."""
    own = [f for f in font_manager.fontManager.ttflist if f.name not in labels.CJK_FONTS]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    labels.cjk_font.cache_clear()
    labels._tell_of_missing_font.cache_clear()
    yield
    plt.close("all")
    labels.cjk_font.cache_clear()
    labels._tell_of_missing_font.cache_clear()
