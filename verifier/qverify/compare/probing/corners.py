"""Parts of tensors in which kernels take another path: rests of vectors, last channels, borders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.forms import NAMES, Form
from qverify.compare.identify.fit import RecordedUnit, solve, triples_of
from qverify.compare.identify.solve import Triples

Mask = npt.NDArray[np.bool_]
VECTORS = (16, 8, 4)  # elements of a vector


def _axes(shape: tuple[int, ...]) -> dict[str, int]:
    """Returns the axes of channels, rows and columns by these words."""
    if len(shape) == 4:
        return {"channel": 1, "row": 2, "column": 3}
    return {"row": len(shape) - 2, "column": len(shape) - 1} if len(shape) > 1 else {"element": 0}


def _parts(shape: tuple[int, ...]) -> Iterator[tuple[str, Mask]]:
    """Yields the name of each part, and a mask of its elements; a part that a tensor lacks has none."""
    for word, axis in _axes(shape).items():
        index, size = np.arange(shape[axis]), shape[axis]
        along = [1] * len(shape)
        along[axis] = size
        few = size < 2
        yield f"the last {word}", np.broadcast_to(((index == size - 1) & (not few)).reshape(along), shape)
        yield f"the first {word}", np.broadcast_to(((index == 0) & (not few)).reshape(along), shape)
        for vector in VECTORS:
            rest = (index >= size // vector * vector) & (size > vector)
            yield f"the {word}s beyond whole vectors of {vector}", np.broadcast_to(rest.reshape(along), shape)
        for vector in VECTORS:
            rest = index >= size // vector * vector
            yield f"the {word}s beyond whole vectors of {vector}, or fewer", np.broadcast_to(rest.reshape(along), shape)
        yield f"tensors with an odd number of {word}s", np.full(shape, bool(size % 2))


@dataclass(frozen=True, slots=True)
class Corner:
    """A part of all tensors that does not follow. form: what gives every element outside it. part: its name. inside: a
    form of the catalogue that gives every element inside it, or ""."""

    form: str
    part: str
    inside: str

    def __str__(self) -> str:
        return f"{self.form} gives every element outside {self.part}" + (
            f", {self.inside} inside" if self.inside else ""
        )


def find_corner(members: Sequence[RecordedUnit], solved: bool) -> Corner | None:
    """Returns the smallest part of all tensors outside which one form gives every element of all units; None if there is
    none. solved: whether the form is one whose parameters are solved, or one of the catalogue."""
    parts = dict[str, list[Mask]]()
    for m in members:
        for name, mask in _parts(m.recorded.shape):
            parts.setdefault(name, []).append(mask)
    whole = {n: masks for n, masks in parts.items() if len(masks) == len(members)}
    sizes = {n: sum(int(np.count_nonzero(m)) for m in masks) for n, masks in whole.items()}
    most, seen = sum(m.recorded.size for m in members) // 2, set[bytes]()
    for name in sorted((n for n in whole if 0 < sizes[n] <= most), key=lambda n: sizes[n]):
        same = b"".join(np.packbits(mask).tobytes() for mask in whole[name])
        if same in seen:
            continue
        seen.add(same)
        if form := _form_outside(members, whole[name], solved):
            return Corner(form, name, _form_outside(members, [~mask for mask in whole[name]], False))
    return None


def _form_outside(members: Sequence[RecordedUnit], masks: Sequence[Mask], solved: bool) -> str:
    """Returns a form of the catalogue, or a solved one, that gives every element outside the masks; "" without one."""
    if not solved and all(
        np.array_equal(m.made[~mask], m.recorded[~mask]) for m, mask in zip(members, masks, strict=True)
    ):
        return "ref-exact"
    triples = list[Triples]()
    for m, mask in zip(members, masks, strict=True):
        found = triples_of(m, np.flatnonzero(~mask.reshape(-1)))
        if found is None:
            return ""
        triples += [found] if found.acc.size else []
    forms: Sequence[Form] = solve(triples) if solved else [f for f in NAMES.values() if str(f) != "ref-exact"]
    return next((str(f) for f in forms if all(t.is_given_by(f) for t in triples)), "")
