"""Pictures: arrays and labels in, matplotlib Axes out. Nothing here shows or saves a figure."""

from course_lib.plots.curves import loss_curve
from course_lib.plots.flow import attention_flow
from course_lib.plots.heatmaps import head_grid, heatmap, shown
from course_lib.plots.labels import cjk_font, visible

__all__ = ["attention_flow", "cjk_font", "head_grid", "heatmap", "loss_curve", "shown", "visible"]
