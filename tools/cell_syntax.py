"""What a cell's code does, read from its syntax: calls, pictures, assertions, outputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def calls_in(tree: ast.AST) -> Iterator[ast.Call]:
    """Every call, at any depth."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def calls_with(tree: ast.AST, function: str, first_argument: str) -> bool:
    """Whether function("first_argument", …) is called."""
    return any(
        ast.unparse(call.func) == function
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and call.args[0].value == first_argument
        for call in calls_in(tree)
    )


def draws(tree: ast.AST) -> bool:
    """Whether a picture is drawn: plt.show() or a heatmap of any kind."""
    names = (ast.unparse(call.func) for call in calls_in(tree))
    return any(name == "plt.show" or "heatmap" in name for name in names)


def asserts(tree: ast.AST) -> bool:
    """Whether something is asserted, by the statement or by a function assert_…"""
    if any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        return True
    names = (ast.unparse(call.func).rpartition(".")[2] for call in calls_in(tree))
    return any(name.startswith("assert_") for name in names)


def leaves_open(tree: ast.AST) -> bool:
    """Whether an exercise is unsolved: it raises NotImplementedError, or sets a name to None."""
    return any(
        (isinstance(node, ast.Raise) and "NotImplementedError" in ast.unparse(node))
        or (isinstance(node, ast.Assign) and ast.unparse(node.value) == "None")
        for node in ast.walk(tree)
    )


def shows_something(source: str) -> bool:
    """Whether a cell must have an output: it prints, shows a figure, or ends with a bare value."""
    statements = ast.parse(source).body
    if not statements:
        return False
    expressions = [node.value for node in statements if isinstance(node, ast.Expr)]
    calls = [ast.unparse(node.func) for node in expressions if isinstance(node, ast.Call)]
    last = statements[-1]
    ends_with_value = isinstance(last, ast.Expr) and not isinstance(last.value, ast.Call)
    return ends_with_value or any(call in ("print", "plt.show", "display") for call in calls)
