"""Reads tensors that a side gives in another container than the model's: flat, or in another type that holds the same
integers. What the elements show is judged as usual; a tensor in another container is never PASSED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from qverify.compare.judge import Judged
from qverify.plural import count
from qverify.tensors.axis_moves import find_move, move_axes, shows_order
from qverify.tensors.codes import is_narrow, restore_codes
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array, Recording, Tensors
from qverify.tensors.spec import TensorSpec

REAL, VALUES, BITS, SHIFTED, AS_GIVEN = "as real values", "by value", "by bits", "with 128 added", ""
STORED = "as stored integers"
IN_ORDER, FLOATS_NEAR = 0.98, 2.0**-6  # share of the elements that must be near; of the largest value


def unwrap(recording: Recording, model: Mapping[str, TensorSpec], peers: Sequence[Recording]) -> Recording:
    """Returns the recording with the tensors that are in another container read as the model's, and stated in
    `containers`. A tensor of another number of elements, with a scale of its own, or with integers that the model's type
    does not hold is left as it is. model: the specs of the model. peers: other sides, by whose values one of several
    readings is chosen."""
    specs, containers, loaders = dict(recording.specs), dict[str, str](), {}
    throughout = _find_common_move(recording, model)
    for name, given in recording.specs.items():
        wanted = model.get(name)
        if wanted is None or name not in recording.tensors:
            continue
        move = find_move(given.shape, wanted.shape, throughout) if _may_be_moved(given, wanted) else ""
        if not move and not _is_other_container(given, wanted):
            continue
        value = recording.tensors[name]
        if (value.shape, value.dtype) != (
            given.shape,
            given.numpy_dtype,
        ):  # not what the side states: a fault of its own
            continue
        peer = _find_peer(name, wanted, peers)
        if move and _is_in_order(value, wanted, peer):
            move = ""
        how = _choose_reading(move_axes(value, move), wanted, peer)
        kept = given.shape == wanted.shape and not move
        if how is None or (how == AS_GIVEN and kept and not is_narrow(given.numpy_dtype)):
            continue
        own = replace(given, shape=wanted.shape, aligned_shape=wanted.shape)
        specs[name] = own if how == AS_GIVEN and given.dtype != wanted.dtype else wanted
        loaders[name] = partial(_load, recording.tensors, name, wanted, move, how)
        words = ", read " + ", ".join(t for t in (move, how) if t) if move or how else ""
        containers[name] = f"given as {_describe(given)}{words}, wanted {_describe(wanted)}"
    if not containers:
        return recording
    digests = {n: d for n, d in recording.digests.items() if n not in containers}
    tensors = _replace(recording.tensors, loaders)
    return replace(recording, specs=specs, tensors=tensors, digests=digests, containers=containers)


def unwrap_differing(
    first: Recording, second: Recording, model: Mapping[str, TensorSpec]
) -> tuple[Recording, Recording]:
    """Returns unwrap() of two dumps, of the tensors that they give in different containers."""
    differing = {
        name: model[name]
        for name, spec in first.specs.items()
        if name in model and name in second.specs and _may_differ(spec, second.specs[name])
    }
    return unwrap(first, differing, [second]), unwrap(second, differing, [first])


def _may_differ(a: TensorSpec, b: TensorSpec) -> bool:
    """Returns whether two sides may give a tensor in different containers: also one whose shape shows no order of its axes."""
    return (a.dtype, a.shape) != (b.dtype, b.shape) or len(a.shape) == 4


def _is_other_container(given: TensorSpec, wanted: TensorSpec) -> bool:
    """Returns whether a tensor may not be in a form that is compared as it is: that of the model, or real values or
    unquantized integers of any width in the model's shape. Floats of a quantized tensor may be its stored integers."""
    if given.quantized or given.elements != wanted.elements or given.numpy_dtype.kind not in "iubf":
        return False
    if given.shape != wanted.shape:
        return True
    if given.numpy_dtype.kind == "f":
        return given.dtype != wanted.dtype and (is_narrow(given.numpy_dtype) or wanted.quantized)
    return wanted.quantized and given.dtype != wanted.dtype


def _describe(spec: TensorSpec) -> str:
    return f"{spec.dtype}{list(spec.shape)}"


def _find_peer(name: str, wanted: TensorSpec, peers: Sequence[Recording]) -> Array | None:
    """Returns the values of another side that has this tensor in the model's container, or None."""
    for peer in peers:
        if name in peer.tensors and name not in peer.missing:
            value = peer.tensors[name]
            if (value.shape, value.dtype) == (wanted.shape, wanted.numpy_dtype):
                return value
    return None


def _choose_reading(value: Array, wanted: TensorSpec, peer: Array | None) -> str | None:
    """Returns the name of the reading that gives most elements of `peer`, within 1 LSB; the first one if they give as
    many, if there is no peer, or if floats would be stored integers and fewer than half were right. Returns None if there
    is no reading."""
    readings = dict(_list_readings(value, wanted))
    if len(readings) < 2 or peer is None or peer.dtype.kind not in "iu":
        return next(iter(readings), None)
    near = {how: _count_near(reading, wanted, peer) for how, reading in readings.items()}
    best = max(near, key=lambda how: near[how])
    return next(iter(readings)) if best == STORED and 2 * near[best] < peer.size else best


def _find_common_move(recording: Recording, model: Mapping[str, TensorSpec]) -> str:
    """Returns the move of axes that all tensors of four axes have whose sizes show an order, "" if they differ or none shows
    one."""
    shapes = [(s.shape, model[n].shape) for n, s in recording.specs.items() if n in model and len(s.shape) == 4]
    moves = {move for given, wanted in shapes if (move := find_move(given, wanted)) and shows_order(move, wanted)}
    move = moves.pop() if len(moves) == 1 else ""
    return move if move and not any(given == wanted and shows_order(move, wanted) for given, wanted in shapes) else ""


def _may_be_moved(given: TensorSpec, wanted: TensorSpec) -> bool:
    """Returns whether a tensor may be one of the model's with its axes in another order: not with a scale of its own."""
    own = given.quantized and (given.scale, given.zero_point) != (wanted.scale, wanted.zero_point)
    return not own and given.numpy_dtype.kind in "iubf"


def _is_in_order(value: Array, wanted: TensorSpec, peer: Array | None) -> bool:
    """Returns whether nearly all elements are the peer's in the order in which the file has them."""
    if peer is None or not peer.size:
        return False
    if peer.dtype.kind in "iu":
        near = max((_count_near(reading, wanted, peer) for _, reading in _list_readings(value, wanted)), default=0)
    else:
        a, b = to_float64(value.reshape(wanted.shape)), to_float64(peer)
        near = int((np.abs(a - b) <= FLOATS_NEAR * np.abs(b).max(initial=0.0, where=np.isfinite(b))).sum())
    return near >= IN_ORDER * peer.size


def _count_near(reading: Array, wanted: TensorSpec, peer: Array) -> int:
    """Returns the number of elements within 1 LSB of the peer's; 0 for real values that stand for no integers."""
    codes = restore_codes(reading, wanted) if reading.dtype.kind == "f" else reading
    if isinstance(codes, str):
        return 0
    return int((np.abs(codes.astype(np.int64) - peer.astype(np.int64)) <= 1).sum())


def _list_readings(value: Array, wanted: TensorSpec) -> Iterator[tuple[str, Array]]:
    """Yields the readings of a value that hold every element, with their names, the most likely first."""
    value, kind = value.reshape(wanted.shape), wanted.numpy_dtype.kind
    if value.dtype == wanted.numpy_dtype or (kind == "f") != (value.dtype.kind == "f") or not wanted.quantized:
        codes = restore_codes(value, wanted) if kind in "iu" and wanted.quantized and is_narrow(value.dtype) else None
        yield (AS_GIVEN, value) if not isinstance(codes, np.ndarray) else (REAL, codes)
        if value.dtype.kind == "f" and kind in "iu" and wanted.quantized and _holds_integers(value, wanted):
            yield STORED, value.astype(wanted.numpy_dtype)
        return
    limits = np.iinfo(wanted.dtype)
    if value.size == 0 or (int(value.min()) >= limits.min and int(value.max()) <= limits.max):
        yield VALUES, value.astype(wanted.numpy_dtype)
    if value.dtype.itemsize == wanted.numpy_dtype.itemsize:
        yield BITS, np.ascontiguousarray(value).view(wanted.numpy_dtype)
    if value.dtype.itemsize == wanted.numpy_dtype.itemsize == 1:
        yield SHIFTED, (np.ascontiguousarray(value).view(np.uint8) ^ np.uint8(128)).view(wanted.numpy_dtype)


def _holds_integers(value: Array, wanted: TensorSpec) -> bool:
    """Returns whether floats are integers of the model's type."""
    limits, real = np.iinfo(wanted.dtype), to_float64(value)
    return bool(((real == np.rint(real)) & (real >= limits.min) & (real <= limits.max)).all())


def _load(tensors: Mapping[str, Array], name: str, wanted: TensorSpec, move: str, how: str) -> Array:
    return dict(_list_readings(move_axes(tensors[name], move), wanted))[how]


def _replace(tensors: Mapping[str, Array], loaders: Mapping[str, partial[Array]]) -> Mapping[str, Array]:
    """Returns the tensors with those of the loaders in their place: in memory if all are, else loaded on access."""
    if isinstance(tensors, dict):
        return {**tensors, **{name: load() for name, load in loaders.items()}}
    return Tensors({**{name: partial(tensors.__getitem__, name) for name in tensors}, **loaders})


def _is_right_when_narrowed(judged: Judged, name: str) -> bool:
    """Returns whether side b gives a float tensor in a narrower type, as side a's elements are in it."""
    p = judged.names[name]
    a, b = judged.a.get_local(p.a), judged.b.get_local(p.b)
    if a is None or b is None or a.dtype.kind != "f" or not is_narrow(b.dtype) or a.shape != b.shape:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.array_equal(a.astype(b.dtype), b, equal_nan=True))


def state_containers(judged: Judged) -> None:
    """Makes rows that would pass INCONCLUSIVE where a side gave the tensor in another container, and a pair that would
    pass likewise; the reasons of other rows state the container, too. Nobody is blamed for it."""
    pair = judged.pair
    stated = {}
    for name, row in judged.rows.items():
        p = judged.names[name]
        given = judged.a.recording.containers.get(p.a) or judged.b.recording.containers.get(p.b)
        if not given:
            continue
        row.bit_equal = pair.bit_equal = False
        failed = row.verdict == "FAILED" or (row.forced is not None and row.forced.verdict == "FAILED")
        right = row.verdict == "PASSED" and not failed
        row.why = f"{given}: the elements are right" if right else "; ".join(t for t in (row.why, given) if t)
        row.verdict = "INCONCLUSIVE" if right else row.verdict
        stated[name] = row
        if not right and _is_right_when_narrowed(judged, name):
            row.why += ": the elements are right to that precision"
    if not stated:
        return
    first = next((row for row in stated.values() if row.verdict == "INCONCLUSIVE"), next(iter(stated.values())))
    more = f" (and {count(len(stated) - 1, 'more tensor')} in another container)" if len(stated) > 1 else ""
    why = f"{first.name}: {first.why}{more}"
    if pair.verdict == "PASSED":
        pair.verdict, pair.cause, pair.why = "INCONCLUSIVE", "container", why
    else:
        pair.notes.append(why)
