"""Gathers what a learner's function needs to live in a file: its source, its helpers, its imports.

The names it looks up outside itself are found with Python's own symbol table. Modules and library
functions become imports, the learner's own helpers come along, simple constants are written out;
anything else (a tensor of the notebook, say) is a reason not to keep it, and is named.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import math
import symtable
import sys
import textwrap
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor

KEPT_MODULES = "course_answers_"  # modules that answers are loaded into begin so
TIMED_CELL = "<timed exec>"  # what IPython calls a cell that begins with %%time
MOST_ENTRIES = 1_000  # of a tensor that is written out as Python


class CannotKeep(Exception):
    """Why something cannot be written to a file, as the end of a sentence."""


def portable_source(name: str, answer: Any) -> str:
    """Python source that defines `name` as the answer, with everything it needs.

    Raises CannotKeep when something it needs cannot be written down.
    """
    gathered = _Gathered()
    gathered.need(name, answer)
    head = "\n".join(sorted(gathered.imports) + gathered.constants)
    return "\n\n\n".join([*([head] if head else []), *gathered.definitions]) + "\n"


class _Gathered:
    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.constants: list[str] = []
        self.definitions: list[str] = []
        self.bound: dict[str, Any] = {}  # what each name stands for so far

    def need(self, name: str, thing: Any, own: bool = True) -> None:
        """See to it that `name` stands for `thing`; `own` code is copied and not imported."""
        if name in self.bound:
            if not _same_thing(name, self.bound[name], thing):
                raise CannotKeep(
                    f"two different things in it are called `{name}` (where one came with an "
                    "earlier answer that was kept: pass that one's check again)"
                )
            return
        if isinstance(thing, ModuleType):
            plain = thing.__name__ == name
            self.imports.add(f"import {name}" if plain else f"import {thing.__name__} as {name}")
        elif isinstance(thing, (type, FunctionType)) and own:
            self._define(name, thing)
        elif importable := _import_line(name, thing):
            self.imports.add(importable)
        else:
            self.constants.append(f"{name} = {_literal(name, thing)}")
            self.imports |= {"import torch"} if isinstance(thing, (Tensor, torch.dtype)) else set()
        self.bound[name] = thing

    def _define(self, name: str, thing: Any) -> None:
        """Add the source of a function or class, after all that it refers to."""
        source, bound = _definition(thing)
        self.bound[bound] = thing
        around = set(getattr(getattr(thing, "__code__", None), "co_freevars", ()))
        if around:
            raise CannotKeep(f"it uses `{sorted(around)[0]}` of a function around it")
        namespace = _namespace(thing)
        for outer in _outer_names(source):
            if outer != bound and outer in namespace:
                found = namespace[outer]
                if _is_builtin(outer, found):
                    continue
                self.need(outer, found, _is_own(found, namespace))
        self.definitions.append(source if bound == name else f"{source}\n\n\n{name} = {bound}")


def _same_thing(name: str, one: Any, other: Any) -> bool:
    """Whether both are one thing, or code of the same text.

    A part of the learner's that is kept within two answers is there twice once both are loaded.
    """
    if one is other:
        return True
    if not all(isinstance(thing, (type, FunctionType)) for thing in (one, other)):
        return False
    return portable_source(name, one) == portable_source(name, other)


def _is_builtin(name: str, thing: Any) -> bool:
    """Whether it is IPython's edition of one of Python's own functions, `open` for instance."""
    if not hasattr(builtins, name):
        return False
    of_ipython = type(thing).__module__.split(".")[0] == "IPython"  # `exit` and `quit`
    return of_ipython or inspect.unwrap(thing) is getattr(builtins, name)


def _is_own(thing: Any, namespace: dict[str, Any]) -> bool:
    module = getattr(thing, "__module__", None) or ""
    return module == namespace.get("__name__") or module.startswith(KEPT_MODULES)


def _definition(thing: Any) -> tuple[str, str]:
    """Source of a function or class, and the name its statement binds."""
    codes = [getattr(inspect.unwrap(part), "__code__", None) for part in _parts(thing)]
    code = next((code for code in codes if code is not None), None)
    if code is None:
        raise CannotKeep(f"the source of `{thing.__name__}` is not known")
    lines = linecache.getlines(code.co_filename)
    if not lines and code.co_filename == TIMED_CELL:
        raise CannotKeep(
            f"the source of `{thing.__name__}` is not known, for its cell begins with a command of "
            "Jupyter: take the line with `%%` out, run the cell and check again"
        )
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:  # a cell with magic commands, say
        raise CannotKeep(f"the source of `{thing.__name__}` cannot be read") from None
    for node in ast.walk(tree):
        bound = _bound_name(node, thing)
        if bound is None:
            continue
        start = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        if start <= code.co_firstlineno <= node.end_lineno:
            return textwrap.dedent("".join(lines[start - 1 : node.end_lineno])).rstrip(), bound
    raise CannotKeep(f"the source of `{thing.__name__}` is not known")


def _parts(thing: Any) -> list[Any]:
    if not isinstance(thing, type):
        return [thing]
    return [part for part in vars(thing).values() if callable(part)]


def _bound_name(node: ast.AST, thing: Any) -> str | None:
    """The name a statement binds, if it is one that can define the function or class."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
        target = node.targets[0]
        is_it = thing.__name__ == "<lambda>" and isinstance(target, ast.Name)
        return target.id if is_it else None
    kind = ast.ClassDef if isinstance(thing, type) else ast.FunctionDef
    return node.name if isinstance(node, kind) and node.name == thing.__name__ else None


def _namespace(thing: Any) -> dict[str, Any]:
    for part in _parts(thing):
        if isinstance(part, FunctionType):
            return part.__globals__
    return vars(sys.modules[thing.__module__])


def _outer_names(source: str) -> list[str]:
    """Names that a piece of source looks up outside itself, builtins included."""
    names: set[str] = set()
    tables = [symtable.symtable(source, "<answer>", "exec")]
    while tables:
        table = tables.pop()
        top = table.get_type() == "module"
        names |= {s.get_name() for s in table.get_symbols() if top or s.is_global()}
        tables += table.get_children()
    return sorted(names)


def _import_line(name: str, thing: Any) -> str | None:
    """The line that imports a function or class of a library under this name, if there is one."""
    original = getattr(thing, "__name__", None)
    homes = (getattr(thing, "__module__", None), "torch", "torch.nn.functional")
    for module in homes:  # torch's built-in functions do not say where they live
        there = getattr(sys.modules.get(module), original or "", None)
        if there is thing and module not in ("__main__", "builtins"):
            return f"from {module} import {original}" + (f" as {name}" if original != name else "")
    return None


def _literal(name: str, thing: Any) -> str:
    """A constant as Python that reads it back."""
    if type(thing) is Tensor and thing.numel() <= MOST_ENTRIES and not thing.requires_grad:
        entries = repr(thing.tolist()).replace("inf", "float('inf')").replace("nan", "float('nan')")
        return f"torch.tensor({entries}, dtype={thing.dtype})"
    if isinstance(thing, torch.dtype):
        return repr(thing)
    if isinstance(thing, float):  # NumPy's too
        number = float(thing)
        return repr(number) if math.isfinite(number) else f"float('{number}')"
    text = repr(thing)
    try:
        readable = bool(ast.literal_eval(text) == thing)
    except (ValueError, SyntaxError, MemoryError, RecursionError, RuntimeError):
        readable = False
    if not readable:
        raise CannotKeep(f"it uses `{name}` (a `{type(thing).__name__}`) of the notebook")
    return text
