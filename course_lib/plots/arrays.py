"""What callers hand in, as numbers to draw."""

from __future__ import annotations

import numpy as np


def as_array(values: object) -> np.ndarray:
    """A float64 array of it, also of a tensor that needs gradients or lies on another device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double()
    return np.asarray(values, dtype=float)
