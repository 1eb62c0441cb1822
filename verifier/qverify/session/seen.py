"""What the board had, out of what a run saw."""

from __future__ import annotations

from typing import Any

import numpy as np

from qverify.tensors.recording import Array


def board_value(seen: Any, name: str) -> Array | None:
    """A tensor as the board had it: an input, what it sent, another side's of the same digest, or pulled now. None where none
    of these is to be had; LinkError from pulling."""
    for item in seen.prepared.inputs:
        if item.spec.name == name:
            return np.asarray(item.array())
    sides = seen.ran.recordings
    board = sides.get("board")
    if board is not None and name in board.tensors:
        return np.asarray(board.tensors[name])
    told = board.digests.get(name) if board is not None else None
    for other in (sides.get("simulator"), sides.get("reference")):
        if other is not None and told is not None and told == other.digests.get(name) and name in other.tensors:
            return np.asarray(other.tensors[name])
    return seen.pull([name]).get(name) if seen.pull is not None and told is not None else None


def host_value(seen: Any, name: str) -> Array | None:
    """The same of the simulator, or of the reference where that did not run."""
    for side in (seen.ran.recordings.get("simulator"), seen.ran.recordings.get("reference")):
        if side is not None and name in side.tensors:
            return np.asarray(side.tensors[name])
    return None
