"""What has to wait for what: the longest chain of matrix products on the way to a result.

A recurrent network's chain grows with the text, for state t needs state t − 1; attention's does
not (Vaswani et al. 2017, table 1). Tensors remember what they were made from, so the chain can be
counted in the graph that `backward` would walk. Lesson 01 counts both.
"""

from __future__ import annotations

from torch import Tensor

from course_lib.runtime import CourseError


def longest_chain(result: Tensor) -> int:
    """How many matrix products had to wait for one another on the way to a result.

    Counts what autograd has recorded: products behind parameters, or under `no_grad`, do not
    show. Raises CourseError for a result that remembers nothing.
    """
    if result.grad_fn is None:
        raise CourseError(
            "this tensor does not remember what it was made from; compute it from parameters, "
            "outside of torch.no_grad()"
        )
    chain, to_do = {}, [result.grad_fn]  # a stack, for a text's graph is deeper than recursion goes
    while to_do:
        before = [node for node, _ in to_do[-1].next_functions if node is not None]
        missing = [node for node in before if node not in chain]
        if missing:
            to_do += missing
        else:
            node = to_do.pop()
            is_product = "mm" in node.name().lower()  # Addmm, Bmm: torch's matrix products
            chain[node] = is_product + max((chain[earlier] for earlier in before), default=0)
    return chain[result.grad_fn]
