"""The output or an input is the earlier content of its buffer: another tensor, or a tensor of the previous frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from qverify.arithmetic.functions64 import log2_of
from qverify.triage.case import Array, Case, UnitChange, element_bits
from qverify.triage.hypotheses import FaultVariant

NAME = "stale-buffer"


def variants(case: Case) -> Iterator[FaultVariant]:
    names = list(dict.fromkeys([*_before(case), *case.graph.inputs]))
    for text, find in [("the previous frame's", partial(_previous, name=case.output))] + [
        (n, partial(_other, name=n)) for n in names
    ]:
        yield from _whole_or_part(case, text, find)
    for name in case.unit.inputs:
        if case.previous(name) is not None:
            yield FaultVariant(
                f"stale buffer: {name} is read as the previous frame left it", partial(_inputs, names=(name,))
            )
    names_read = tuple(case.unit.inputs)
    if len(names_read) > 1 and all(case.previous(name) is not None for name in names_read):
        text = "stale buffer: the output comes a frame late: every input is read as the previous frame left it"
        yield FaultVariant(text, partial(_inputs, names=names_read))


def _before(case: Case) -> list[str]:
    """Returns the tensors computed before the unit ran: a later one cannot have been in its buffer, and may copy its
    output."""
    nodes = [node.name for node in case.graph.nodes]
    first = nodes.index(case.unit.nodes[0].name)
    computed = {o for node in case.graph.nodes[:first] for o in node.outputs}
    return [n for n in case.graph.observable() if n in computed and n not in case.unit.outputs]


def _previous(case: Case, name: str) -> Array | None:
    return case.previous(name)


def _other(case: Case, name: str) -> Array | None:
    return case.inputs[name] if name in case.inputs else case.board(name)


def _whole_or_part(case: Case, text: str, find: Callable[[Case], Array | None]) -> Iterator[FaultVariant]:
    earlier = find(case)
    if earlier is None:
        return
    old = as_output(earlier, case)
    if old is None:
        return
    if (element_bits(old) == element_bits(case.recorded)).all():
        yield FaultVariant(
            f"stale buffer: the output is {text} tensor" if "frame" in text else f"stale buffer: the output is {text}",
            partial(_replaced, find=find),
            4.0 if text in case.unit.inputs else 0.0,  # a copy, or a unit that is skipped, gives the same
            copied=True,
        )
        return
    places = case.differing
    first, last = int(places[0]), int(places[-1]) + 1
    run = slice(first, last)
    if (element_bits(old)[run] == element_bits(case.recorded)[run]).all():
        where = f"elements {first} to {last - 1}"
        yield FaultVariant(
            f"stale buffer: {where} are {text}",
            partial(_replaced, find=find, part=run),
            2 * log2_of(case.recorded.size),
            copied=True,
        )


def as_output(earlier: Array, case: Case) -> Array | None:
    """Returns the first bytes of a tensor as elements of the output, or None if there are too few."""
    data = np.ascontiguousarray(earlier).reshape(-1).view(np.uint8)
    size_bytes = case.spec.valid_bytes
    return None if data.size < size_bytes else data[:size_bytes].view(case.spec.numpy_dtype).reshape(case.spec.shape)


def _replaced(case: Case, find: Callable[[Case], Array | None], part: Any = slice(None)) -> Array:
    earlier = find(case)
    old = None if earlier is None else as_output(earlier, case)
    assert old is not None
    output = case.healthy.copy().reshape(-1)
    output[part] = old.reshape(-1)[part]
    return output.reshape(case.spec.shape)


def _inputs(case: Case, names: tuple[str, ...]) -> Array:
    earlier = {name: values for name in names if (values := case.previous(name)) is not None}
    assert len(earlier) == len(names)
    return case.recompute(UnitChange(inputs=earlier))
