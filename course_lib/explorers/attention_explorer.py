"""Where every head of a model reads, to look through: all heads small, one of them large, the text.

Thin: lens.capture runs the model, web/attention_core.mjs computes what is drawn. The weights travel
once for each text; after that nothing needs the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
import traitlets
from matplotlib.figure import Figure

from course_lib.data.tokenizer import CharTokenizer
from course_lib.explorers.frame import Explorer, front_end
from course_lib.lens.capture import capture
from course_lib.model.gpt import GPT
from course_lib.plots import head_grid
from course_lib.plots.labels import visible
from course_lib.runtime import CourseError

MOST_TOKENS = 256
FULL = 65_535  # what a weight of 1 is sent as


class AttentionExplorer(Explorer):
    """Attention weights of every layer and head while a model reads a text.

    AttentionExplorer(model, tokenizer, "JULIET:\\nO Romeo, Romeo!", layer=3, head=2)
    AttentionExplorer({"trained": model, "new": newborn}, tokenizer, text)      # to compare

    Choose a head, point at a token or move with the arrow keys, and see where it reads; "mean" is
    the mean of a layer's heads. "Compare others with this head" shows the difference to it from
    then on. Another text can be typed in. `selected` is what is chosen: model, layer, head (−1 is
    the mean) and query, all counted from 0.

    Raises CourseError for a text that has no tokens, too many of them or unknown characters, and
    for a layer, head or query that is not there.
    """

    _esm = front_end("attention")

    text = traitlets.Unicode().tag(sync=True)
    message = traitlets.Unicode().tag(sync=True)
    labels = traitlets.List(traitlets.Unicode()).tag(sync=True)
    breaks = traitlets.List(traitlets.Bool()).tag(sync=True)
    models = traitlets.List(traitlets.Dict()).tag(sync=True)
    weights = traitlets.List(traitlets.Bytes()).tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        model: GPT | Mapping[str, GPT],
        tokenizer: CharTokenizer,
        text: str,
        *,
        layer: int = 0,
        head: int = 0,
        query: int | None = None,
    ) -> None:
        self._models = dict(model) if isinstance(model, Mapping) else {"model": model}
        if not self._models:
            raise CourseError("there is no model to explore; give one, or a name for each of some")
        self._tokenizer = tokenizer
        read = self._read(text)
        first = read["models"][0]
        query = len(read["labels"]) - 1 if query is None else query
        _require("layer", layer, 0, first["layers"])
        _require("head", head, -1, first["heads"])
        _require("query", query, 0, len(read["labels"]))
        chosen = {"model": 0, "layer": layer, "head": head, "query": query}
        super().__init__(text=text, selected=chosen, **read)
        self.observe(self._another_text, names="text")

    def still(self) -> Figure:
        """The heads of the chosen layer, a map each."""
        layer = self.selected["layer"]
        weights = self._captured[self.selected["model"]][layer].numpy()
        return head_grid(weights, self._tokens, title=f"layer {layer}")[0].figure

    def still_text(self) -> str:
        """What the still is."""
        return f"Where each head of layer {self.selected['layer']} reads, as maps."

    def _read(self, text: str) -> dict:
        """What the front end needs of a text; where it raises CourseError nothing has changed."""
        ids = self._tokenizer.encode(text)
        limit = min([MOST_TOKENS, *(m.config.context_length for m in self._models.values())])
        if not 0 < len(ids) <= limit:
            raise CourseError(
                f"the text has {len(ids)} tokens; give 1 to {limit}, what can be read and shown"
            )
        captured = [
            [layer[0] for layer in capture(model, ids[None]).weights]  # (head, query, key) each
            for model in self._models.values()
        ]
        self._captured, self._tokens = captured, self._tokenizer.decode(ids)
        return {
            "labels": [visible(token) for token in self._tokens],
            "breaks": [token == "\n" for token in self._tokens],
            "models": [
                {"name": name, "layers": len(layers), "heads": len(layers[0])}
                for name, layers in zip(self._models, captured, strict=True)
            ],
            "weights": [_as_bytes(torch.stack(layers)) for layers in captured],
        }

    def _another_text(self, change: dict) -> None:
        try:
            read = self._read(change["new"])
        except CourseError as error:
            self.message = str(error)
            return
        with self.hold_sync():
            self.message = ""
            self.selected = {**self.selected, "query": len(read["labels"]) - 1}
            for name, value in read.items():
                setattr(self, name, value)


def _as_bytes(weights: torch.Tensor) -> bytes:
    """(layer, head, query, key), each 0 to 1, as little-endian unsigned 16-bit numbers."""
    return np.rint(weights.float().numpy() * FULL).clip(0, FULL).astype("<u2").tobytes()


def _require(name: str, value: int, least: int, limit: int) -> None:
    if not least <= value < limit:
        raise CourseError(f"there is no {name} {value}; choose {least} to {limit - 1}")
