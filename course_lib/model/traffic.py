"""Bytes that attention moves between a GPU's large memory (HBM) and its small fast one (SRAM).

Arithmetic happens on tiles in SRAM; what does not stay there is written to HBM and read again.
The counts follow Dao et al. 2022 (arXiv 2205.14135, algorithm 0 and theorem 2): Θ(Nd + N²) numbers
for plain attention, Θ(N²d²/M) tile by tile with M numbers of SRAM. Lesson 14.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.model.flash import tiles

FLOAT32 = 4  # bytes


def plain_bytes(length: int, d_head: int, number_bytes: int = 2) -> int:
    """Bytes that one head of plain attention moves, with a kernel (a program) for each step.

    Scores: reads query and key, writes n². Softmax: reads n², writes n². Mixing: reads n² and
    value, writes the output. A mask in a kernel of its own would read and write another n².
    """
    return number_bytes * (4 * length * d_head + 4 * length**2)


def tiled_bytes(
    length: int, d_head: int, query_tile: int, key_tile: int, *, causal: bool, number_bytes: int = 2
) -> int:
    """Bytes that one head moves tile by tile, in one kernel (flash.flash_attention, forward).

    Each query is read once and its output written once; keys and values are read anew for each tile
    of queries, with a causal mask only the tiles that it leaves something of.
    """
    read = 0  # keys, each as often as it is read
    for rows in tiles(length, query_tile):
        read += min(-(-rows.stop // key_tile) * key_tile, length) if causal else length
    return number_bytes * d_head * (2 * length + 2 * read)


def sram_bytes(query_tile: int, key_tile: int, d_head: int, number_bytes: int = 2) -> int:
    """Bytes that the tiles at work take: query, key and value, and in float32 the tile's scores and
    what is kept of each query (largest score, total, mixed value)."""
    read = (query_tile + 2 * key_tile) * d_head
    kept = query_tile * (key_tile + d_head + 2)
    return number_bytes * read + FLOAT32 * kept


class LargestTensor(TorchDispatchMode):
    """Within it, `bytes` grows to the size of the largest tensor that any operation returns.

    Process size says little on a CPU: memory that was given back is kept for the next tensor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None):
        result = func(*args, **(kwargs or {}))
        parts = result if isinstance(result, (tuple, list)) else (result,)
        sizes = [part.numel() * part.element_size() for part in parts if isinstance(part, Tensor)]
        self.bytes = max([self.bytes, *sizes])
        return result
