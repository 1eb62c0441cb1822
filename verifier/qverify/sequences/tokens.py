"""The gate for tokens: where two sides choose another token, each must be among the best of the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qverify.errors import UsageError
from qverify.model_bin.graph import Graph
from qverify.sequences.loop import Loop
from qverify.tensors.recording import Array


def token_output(graph: Graph, loop: Loop) -> str:
    """Returns the output whose largest value is the token: one that a state takes by argmax, else the output with the largest
    last axis that is no state. Raises UsageError if there is none."""
    by_argmax = [state.output for state in loop.states.values() if state.via]
    states = {state.output for state in loop.states.values()}
    others = [n for n in graph.network_outputs() if n not in states and graph.spec(n).shape]
    if not by_argmax and not others:
        raise UsageError("--gate tokens: all outputs are states; wanted one of logits")
    return by_argmax[0] if by_argmax else max(others, key=lambda n: graph.spec(n).shape[-1])


def last_row(values: Array) -> Array:
    """Returns the last row along the last axis."""
    return np.asarray(values).reshape(-1, values.shape[-1])[-1]


def token_of(values: Array) -> int:
    """Returns the position of the largest value of the last row, the first of several equal ones; -1 if it has NaN."""
    row = last_row(values)
    return -1 if row.dtype.kind == "f" and np.isnan(row).any() else int(row.argmax())


def judge_tokens(top: int, a: Array, b: Array) -> str:
    """Returns why two sides' logits miss the gate tokens:topK, "" if they hold it. top: K. A token that has as many larger values as K on the
    other side misses."""
    tokens = token_of(a), token_of(b)
    if -1 in tokens:
        return "the logits have NaN"
    if a.shape != b.shape:
        return f"the logits have the shapes {list(a.shape)} and {list(b.shape)}"
    for values, token, own in ((b, tokens[0], tokens[1]), (a, tokens[1], tokens[0])):
        row = last_row(values)
        rank = int((row > row[token]).sum())
        if rank >= top:
            return f"tokens {tokens[0]} and {tokens[1]}: {token} is number {rank + 1} of the side that chose {own}"
    return ""


def tokens_of(output: str, values: Mapping[str, Array]) -> int | None:
    """Returns a side's token, None if it lacks the output. values: its outputs by name."""
    return token_of(values[output]) if output in values else None
