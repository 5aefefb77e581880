"""Sampling to play with: the next character's bars, what each filter removes, a text that grows.

Thin: every number comes from course_lib.generation, in the kernel, at each move of a slider: 3 kB,
and the page asks again only when it has its answer. So there is one implementation of the filters,
and the page shows that one. Writing happens in a thread, for the kernel has to hear "Stop".
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, ClassVar

import traitlets
from matplotlib.figure import Figure

from course_lib.data.tokenizer import CharTokenizer
from course_lib.explorers.frame import Explorer, front_end
from course_lib.explorers.growing_text import MOST_WRITTEN, GrowingText
from course_lib.explorers.sampling_bars import sampling_bars
from course_lib.explorers.sampling_still import draw_bars, in_words
from course_lib.generation import Sampling
from course_lib.model.config import is_whole
from course_lib.model.gpt import GPT
from course_lib.runtime import CourseError

PACES = {"slow": 0.6, "readable": 0.04, "fast": 0.005}  # seconds between two characters, at least
LONGEST = 40  # characters of a number that is typed


class SamplingPlayground(Explorer):
    """A prompt, temperature, top-k and top-p; the next character as bars; a text written from them.

    SamplingPlayground(model, tokenizer, "ROMEO:\\n", temperature=0.8, top_k=20, top_p=0.95)

    Write streams up to `length` characters, Stop ends that within one, and both go on from what is
    there. With the settings left alone it is what generate_text writes for this prompt and seed.
    Another prompt or seed begins anew; the other settings hold from the next character on. Only one
    playground writes at a time: a new one stops the others, so running a cell again does too.

    `settings` are as typed in the page, `state` is what was made of them. Raises CourseError as
    generate_text does, and for a length below 1.
    """

    _esm = front_end("sampling")
    _busy: ClassVar[SamplingPlayground | None] = None  # the one that writes
    _stopped = threading.Event()  # each has its own, from __init__ on

    settings = traitlets.Dict().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        model: GPT,
        tokenizer: CharTokenizer,
        prompt: str = "",
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
        length: int = 300,
    ) -> None:
        if not (is_whole(length) and length >= 1):
            raise CourseError(f"length={length!r} must be a whole number of at least 1")
        self._lock = threading.RLock()  # the page's wishes and the writing thread change the state
        self._stopped = threading.Event()
        self._stopped.set()
        self._model, self._tokenizer, self._length = model, tokenizer, length
        self._sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
        self._text = GrowingText(model, tokenizer, prompt, seed)
        self._place: int | None = None  # the character whose choice is shown; None: the next one
        self._message = ""
        typed = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        settings = {name: "" if value is None else str(value) for name, value in typed.items()}
        settings |= {"prompt": prompt, "pace": "readable"}
        self._accepted = settings
        _stop_whoever_writes()
        super().__init__(settings=settings, state=self._described())
        self.observe(lambda change: self._accept(change["new"]), names="settings")
        self.on_msg(lambda _, content, __: self._asked(content))

    def still(self) -> Figure:
        """The bars of the next character."""
        shown = "".join(self._tokenizer.decode(self._text.tokens)[-20:])
        return draw_bars(self.state["bars"], shown, self._sampling)

    def still_text(self) -> str:
        """What the still is."""
        return f"The probabilities of the next character as bars, at {in_words(self._sampling)}."

    # ---- what is done

    def write(self, length: int | None = None) -> None:
        """Go on from what is there, in the background; one character stays marked for a moment."""
        length = self._length if length is None else length
        _stop_whoever_writes()
        with self._lock:
            self._message = ""
            if self._text.full:
                self._message = f"{MOST_WRITTEN:,} characters are all that is kept; start over"
                self._show()
                return
            self._stopped = threading.Event()
            SamplingPlayground._busy = self
            work = (self._text, length, self._stopped)
            # in this context, so that the kernel sends what the page answers where it sent this
            run = contextvars.copy_context().run
            threading.Thread(target=run, args=(self._go_on, *work), daemon=True).start()

    def stop(self) -> None:
        """End the writing, within a character."""
        self._stopped.set()  # before the lock: then who writes lets it go
        with self._lock:
            self._place = None
            self._show()

    def look(self, place: int) -> None:
        """Show how a written character was chosen, counted from 0; past the last, the next."""
        with self._lock:
            if self._stopped.is_set():
                written = len(self._text.drawn)
                self._place = max(place, 0) if place < written else None
                self._show()

    def start_over(self) -> None:
        """Back to the prompt and the seed."""
        self.stop()
        with self._lock:
            settings = self._accepted
            self._text = GrowingText(
                self._model, self._tokenizer, settings["prompt"], int(settings["seed"])
            )
            self._message = ""
            self._show()

    def close(self) -> None:
        """End the writing too."""
        self._stopped.set()
        super().close()

    def set_state(self, sync_data: dict) -> None:
        """What the page sends; while it is taken in, nobody else changes the state."""
        with self._lock:
            super().set_state(sync_data)

    # ---- what the page wants

    def _asked(self, content: dict) -> None:
        do = content.get("do")
        if "settings" in content:
            self.settings = content["settings"]
        if self.settings != self._accepted and do in ("write", "start_over"):
            return  # the message says why
        if do == "write":
            self.write(content.get("length"))
        elif do == "look":
            self.look(content["place"])
        elif do == "stop":
            self.stop()
        elif do == "start_over":
            self.start_over()

    def _accept(self, settings: dict) -> None:
        """Take over settings that make sense; else say why, and all stays as it was."""
        try:
            sampling = Sampling(
                temperature=_typed(settings["temperature"], float),
                top_k=_typed(settings["top_k"], int),
                top_p=_typed(settings["top_p"], float),
            )
            anew = None
            if any(settings[name] != self._accepted[name] for name in ("prompt", "seed")):
                seed = _typed(settings["seed"], int)
                anew = GrowingText(self._model, self._tokenizer, settings["prompt"], seed)
        except CourseError as error:
            with self._lock:
                self._message = str(error)
                self._show()
            return
        if anew is not None:
            self.stop()
        with self._lock:
            self._accepted, self._sampling, self._text = settings, sampling, anew or self._text
            self._message = ""
            self._show()

    # ---- what is shown

    def _go_on(self, text: GrowingText, length: int, stopped: threading.Event) -> None:
        """Write, in a thread of its own, which prints nothing, whatever happens."""
        for _ in range(length):
            with self._lock:
                if stopped.is_set() or text.full:
                    break
                try:
                    text.write(self._sampling)
                except Exception as error:  # nobody is there to catch it
                    known = isinstance(error, CourseError)
                    self._message = str(error) if known else f"{type(error).__name__}: {error}"
                    break
                self._place = len(text.drawn) - 1
                self._show()
                pace = PACES["slow"] if length == 1 else PACES[self._accepted["pace"]]
            stopped.wait(pace)
        with self._lock:
            if not stopped.is_set():
                stopped.set()
                self._place = None
                self._show()

    def _show(self) -> None:
        self.state = self._described()

    def _described(self) -> dict[str, Any]:
        text, place = self._text, self._place
        cropped = text.prompt_length > self._model.config.context_length
        drawn = None if place is None else text.drawn[place]
        return {
            "prompt": self._accepted["prompt"],
            "text": self._tokenizer.decode(text.drawn),
            "place": place,
            "bars": sampling_bars(
                text.logits[-1 if place is None else place], self._sampling, self._tokenizer, drawn
            ),
            "temperature": self._sampling.temperature,
            "top_k": self._sampling.top_k,
            "top_p": self._sampling.top_p,
            "writing": not self._stopped.is_set(),
            "message": self._message,
            "note": _crop_note(text, self._model) if cropped else "",
        }


def _stop_whoever_writes() -> None:
    busy, SamplingPlayground._busy = SamplingPlayground._busy, None
    if busy is not None:
        busy.stop()


def _typed(text: str, kind: Callable[[str], Any]) -> Any:
    """The number that was typed, or what was, for Sampling to refuse; nothing is None."""
    text = text.strip()[:LONGEST]
    try:
        return kind(text) if text else None
    except ValueError:
        return text


def _crop_note(text: GrowingText, model: GPT) -> str:
    return (
        f"The prompt has {text.prompt_length} characters; the model reads the last "
        f"{model.config.context_length}."
    )
