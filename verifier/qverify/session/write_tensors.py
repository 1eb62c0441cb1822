"""Writes the tensors of every side of a run to one .npz."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from qverify.session.run_evidence import RunEvidence, board_values
from qverify.tensors.recording import Array, Recording, Tensors

SCHEMA = "qverify.npz/1"
INPUTS = "inputs"


def write_tensors(path: str, evidence: RunEvidence) -> None:
    """Writes arrays INPUTS/NAME and SIDE/NAME, each with the valid elements in the tensor's dtype.

    NAME is the tensor's name, made safe for files and distinct; it is the same on every side. The member index.json
    (SCHEMA) lists tensor, dtype, shape, scale and zero point of each array, and the missing tensors of each side with
    the reason. For a tensor of the board whose bytes did not cross the link, those of another side's tensor with the
    same digest are written."""
    from qverify.session.npz_file import FAST, write_npz
    from qverify.tensors.file_names import file_stems

    inputs = {item.spec.name: item.spec for item in evidence.prepared.inputs}
    sides = evidence.results.recordings
    stems = file_stems(dict.fromkeys([*inputs, *(name for side in sides.values() for name in side.specs)]))
    loaders, rows, missing = dict[str, Callable[[], Array]](), list[dict[str, Any]](), list[dict[str, str]]()

    def add(side: str, name: str, spec: Any, load: Callable[[], Array]) -> None:
        key = f"{side}/{stems[name]}"
        loaders[key] = load
        row = {"key": key, "side": side, "tensor": name, "dtype": spec.dtype, "shape": [*spec.shape]}
        rows.append(row | {"scale": [*map(float, spec.scale)], "zero_point": [*map(int, spec.zero_point)]})

    for item in evidence.prepared.inputs:
        add(INPUTS, item.spec.name, item.spec, partial(_array, item.array))
    for label, side in sides.items():
        for name, load in _tensor_loaders(side, evidence):
            if load is None:
                why = side.missing.get(name, "its bytes did not cross the link")
                missing.append({"side": label, "tensor": name, "why": why})
            else:
                add(label, name, side.specs[name], load)
    write_npz(path, Tensors(loaders), {"schema": SCHEMA, "arrays": rows, "missing": missing}, FAST)


def _tensor_loaders(side: Recording, evidence: RunEvidence) -> Iterable[tuple[str, Callable[[], Array] | None]]:
    """Yields each tensor that the side offers, with a function that loads it; None if its bytes are not available."""
    values = board_values(evidence.results.recordings, None) if side.side == "board" else None
    for name in side.specs:
        if name in side.missing:
            yield name, None
        elif values is not None:
            yield name, partial(values.get, name) if values.get_local(name) is not None else None  # type: ignore[misc]
        else:
            yield name, partial(side.tensors.__getitem__, name) if name in side.tensors else None


def _array(load: Callable[[], Any]) -> Array:
    return np.asarray(load())
