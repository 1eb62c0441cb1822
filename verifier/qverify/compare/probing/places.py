"""Says where in a tensor elements lie: channels, rows and columns."""

from __future__ import annotations

import numpy as np

from qverify.tensors.recording import Array

AXES = {4: ("", "channel", "row", "column"), 3: ("channel", "row", "column"), 2: ("row", "column"), 1: ("element",)}


def describe_places(wrong: Array) -> str:
    """Returns the places of the elements of a mask that are true: how many, and the indices of each axis along which
    only some have any."""
    total = f"{int(np.count_nonzero(wrong))} of {wrong.size} elements"
    parts = []
    for axis, word in enumerate(AXES.get(wrong.ndim, tuple(f"axis {i}" for i in range(wrong.ndim)))):
        size = wrong.shape[axis]
        held = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != axis)))
        if word and size > 1 and len(held) < size:
            parts.append(f"{word}{'' if len(held) == 1 else 's'} {_ranges(held)} of {size}")
    return f"{total}: {', '.join(parts)}" if parts else total


def _ranges(indices: Array) -> str:
    """Returns indices with runs of neighbours written as ranges, at most four of them."""
    starts = np.flatnonzero(np.diff(indices, prepend=-2) != 1)
    runs = [(int(r[0]), int(r[-1])) for r in np.split(indices, starts[1:])]
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:4]]
    return ", ".join(shown) + (" ..." if len(runs) > 4 else "")
