"""Outputs of different sizes that were written one after another in another order: where each begins tells nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.mistakes import Explanation, Mistake, list_single_mistakes
from qverify.outputs.difference import ComparedPart, OutputExplanation, explain_outputs
from qverify.outputs.hypotheses import exchanged_outputs, pages
from qverify.outputs.recipe import OutputRecipe
from qverify.outputs.trial import Trial

Array = npt.NDArray[Any]
MOST_OUTPUTS = 6
Prepare = Callable[[str, Array], tuple[Trial, OutputRecipe]]


def explain_exchanged(arrays: dict[str, Array], prepare: Prepare) -> list[ComparedPart] | None:
    """Returns the parts of a file without names in which two outputs of different sizes are exchanged, if that, and at most
    one more mistake with each, reproduces every one; else None.

    Args:
        arrays: the device's values by name, as they lie in the file if nothing is exchanged.
        prepare: returns the trial and the intended recipe of an output, given its name and values."""
    if len(arrays) > MOST_OUTPUTS or len({a.dtype for a in arrays.values()}) != 1 or _explain(arrays, prepare, ()):
        return None
    for one, other in combinations(arrays, 2):
        if arrays[one].size != arrays[other].size:
            parts = _explain(_exchange(arrays, one, other), prepare, (one, other))
            if parts is not None:
                return parts
    return None


def _exchange(arrays: dict[str, Array], one: str, other: str) -> dict[str, Array]:
    shapes = {name: a.shape for name, a in arrays.items()}
    shapes[one], shapes[other] = shapes[other], shapes[one]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes.values()]).tolist()
    parts = np.split(np.concatenate([a.reshape(-1) for a in arrays.values()]), ends[:-1])
    return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}


def _explain(arrays: dict[str, Array], prepare: Prepare, exchanged: tuple[str, ...]) -> list[ComparedPart] | None:
    parts = []
    for name in sorted(arrays, key=lambda n: arrays[n].size):  # the small ones reject most
        trial, intended = prepare(name, arrays[name])
        known = [*_list_known(intended, exchanged if name in exchanged else ())]
        difference = explain_outputs(trial, intended, 0.0, known=known)
        if not difference.equal and not difference.exact:
            return None
        parts.append(ComparedPart(name, difference))
    order = [*arrays]
    return sorted(parts, key=lambda part: order.index(part.name))


def _list_known(intended: OutputRecipe, exchanged: tuple[str, ...]) -> Iterator[OutputExplanation]:
    """Yields single mistakes, or those with an exchange of these outputs before them."""
    if not exchanged:
        yield from list_single_mistakes(pages(), intended)
        return
    text = " and ".join(exchanged)
    for said, recipe in exchanged_outputs.variants(intended):
        if f" {text} " in said:
            first = Mistake(exchanged_outputs.NAME, said)
            yield Explanation((first,), recipe)
            for single in list_single_mistakes(pages(), recipe):
                if single.causes[0].family != exchanged_outputs.NAME:
                    yield Explanation((first, *single.causes), single.recipe)
