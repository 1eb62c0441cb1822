"""The order of the axes of arrays in a dump, as --layout states it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from qverify.errors import UsageError
from qverify.tensors.axis_moves import ORDERS, shows_order
from qverify.tensors.axis_moves import move_axes as turn
from qverify.tensors.recording import Array, Recording, Tensors
from qverify.tensors.spec import TensorSpec

OTHER = {"NHWC": "NCHW", "NCHW": "NHWC"}


def move_axes(recording: Recording, layout: str, wanted: Mapping[str, TensorSpec], path: str) -> Recording:
    """Returns the recording with its arrays of four axes in the order of the other side, or of the model. layout: that of the
    arrays. wanted: specs of the other side or the model. Raises UsageError if that has all of them as they are."""
    move = f"from {layout} to {OTHER[layout]}"
    order = ORDERS[move]
    shapes = {n: s.shape for n, s in recording.specs.items() if len(s.shape) == 4 and n in recording.tensors}
    moved = {n: tuple(shape[axis] for axis in order) for n, shape in shapes.items()}
    known = {n: wanted[n] for n in shapes if n in wanted and wanted[n].layout != layout}
    as_it_is = {n for n, spec in known.items() if shapes[n] == spec.shape and shows_order(move, spec.shape)}
    names = [n for n, spec in known.items() if moved[n] == spec.shape and (shapes[n] != spec.shape or not as_it_is)]
    if not names:
        raise UsageError(
            f"--layout {layout}: {path} has no array of four axes that is {OTHER[layout]} on the other side; leave it out"
        )
    loaders = {n: partial(_load, recording.tensors, n, move) for n in names}
    rest = {n: partial(recording.tensors.__getitem__, n) for n in recording.tensors if n not in loaders}
    specs = {n: _spec(recording.specs[n], moved[n], known[n]) for n in names}
    digests = {n: digest for n, digest in recording.digests.items() if n not in loaders}
    return replace(recording, specs=recording.specs | specs, tensors=Tensors({**rest, **loaders}), digests=digests)


def _load(tensors: Mapping[str, Array], name: str, move: str) -> Array:
    return turn(tensors[name], move)


def _spec(given: TensorSpec, shape: tuple[int, ...], wanted: TensorSpec) -> TensorSpec:
    """Returns the spec of an array that was moved: the other side's own if type and dims are its."""
    alike = (wanted.dtype, wanted.shape) == (given.dtype, shape)
    return wanted if alike and not given.quantized else replace(given, shape=shape, aligned_shape=shape)
