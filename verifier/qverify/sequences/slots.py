"""What a wrong state tensor shows: exact tests of what it holds instead (SEQUENCES.md section 5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from qverify.arithmetic.functions64 import log2, log2_of
from qverify.sequences.chain import same_bytes
from qverify.tensors.real_values import to_float64
from qverify.tensors.recording import Array

MAX_LEVELS = 256.0  # different values that an element is taken to have
NEAR = 1 / 16  # of the largest difference, which a claim may leave
MIN_BITS = 10  # of evidence beyond the choice among the alternatives
MAX_PLACES = 4  # named in a text
MAX_TESTED = 1 << 22  # elements of a tensor of which only the places are told beyond
MAX_TRIED_PARTS, MAX_SHIFT = 64, 64
LAYER = re.compile(r"(?<!\d)(\d{1,4})(?!\d)")


@dataclass(frozen=True, slots=True)
class Written:
    """Where a step wrote: the places along one axis at which the expected output differs from the state that came in."""

    axis: int
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """One state in one step, as far as a side gave it. expected: the right output. came_in: the state that the step read; None if it
    has another shape. before: the right output of the step before; None in the first. ran_before: that of the run before, of whatever feed. came_before: the state which that
    step read. first: the state of step 0. others: the right outputs of other states, by name. scale: of an LSB, 0 if it is
    not quantized."""

    name: str
    expected: Array
    came_in: Array | None = None
    before: Array | None = None
    ran_before: Array | None = None
    came_before: Array | None = None
    first: Array | None = None
    others: Mapping[str, Array] = field(default_factory=dict)


def find_written(expected: Array, came_in: Array | None) -> Written | None:
    """Returns where a step wrote, along the axis with the fewest places; None if it wrote at more than half of every
    axis, or nothing is known."""
    if came_in is None or came_in.shape != expected.shape or came_in.dtype != expected.dtype:
        return None
    changed = _bits(expected) != _bits(came_in)
    best: Written | None = None
    for axis, size in enumerate(expected.shape):
        others = tuple(k for k in range(expected.ndim) if k != axis)
        places = tuple(int(p) for p in np.flatnonzero(changed.any(axis=others)))
        if size > 1 and 0 < len(places) <= size // 2 and (best is None or len(places) < len(best.places)):
            best = Written(axis, places)
    return best


def _bits(values: Array) -> Array:
    """Returns the values as unsigned integers of their size, so that NaN equals itself."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a tensor holds, in words. is_named: it is one of the known mistakes, not only places."""

    text: str
    is_named: bool = True


def describe_state(given: Array, held: Held) -> Shown:
    """Returns in words what a wrong state tensor holds; where it differs if no test fits. given: the side's tensor."""
    expected = held.expected
    if given.shape != expected.shape or given.dtype != expected.dtype:
        return Shown(
            f"it is {given.dtype}{list(given.shape)}, wanted {expected.dtype}{list(expected.shape)}: another dtype"
        )
    if given.dtype.kind == "f" and np.isnan(given).any() and not np.isnan(expected).any():
        return Shown(f"NaN at {_name_places(held.name, given, np.isnan(given))}")
    claims = _claims(held, given) if given.size <= MAX_TESTED else ()
    near = ""
    for tried, (text, claimed) in enumerate(claims, 1):
        wanted = MIN_BITS + log2_of(tried)
        if same_bytes(np.ascontiguousarray(claimed), given) and evidence(given, expected) >= wanted:
            return Shown(text)
        near = near or (f"{text}, nearly" if _is_near(given, claimed, expected, wanted) else "")
    return Shown(
        near or f"other values at {_name_places(held.name, given, _bits(given) != _bits(expected))}", bool(near)
    )


def evidence(given: Array, expected: Array) -> float:
    """Returns the bits that an exact claim explains: the elements that differ, times log2 of the levels of their values: their
    range by the smallest difference between two of them, at most MAX_LEVELS."""
    apart = _bits(given) != _bits(expected)
    if given.dtype.kind not in "iuf":
        return float(apart.sum())
    values = np.unique(to_float64(np.concatenate([given[apart], expected[apart]])))
    if values.size < 2 or not np.isfinite(values).all():
        return 0.0
    levels = min(float((values[-1] - values[0]) / np.diff(values).min()) + 1, MAX_LEVELS)
    return float(apart.sum()) * log2_of(levels)


def _is_near(given: Array, claimed: Array, expected: Array, wanted: float) -> bool:
    """Returns whether a claim leaves at most a sixteenth of the largest difference, as of a board that rounds otherwise. Each
    element that it brings at least four times nearer counts log2 of how much nearer, at most that of MAX_LEVELS."""
    if given.dtype.kind not in "iuf":
        return False
    a, b, c = (to_float64(np.asarray(v)) for v in (given, claimed, expected))
    if not all(bool(np.isfinite(v).all()) for v in (a, b, c)):
        return False
    left, before = np.abs(a - b), np.abs(a - c)
    rest = float(left.max(initial=0.0))
    if not 0 < rest <= float(before.max(initial=0.0)) * NEAR:
        return False
    nearer = before[before > 4 * rest] / rest
    return float(log2(nearer.clip(max=MAX_LEVELS)).sum()) >= wanted


def find_ring(expected: Array, came_in: Array | None) -> Array | None:
    """Returns the state that came in moved as the step moved it, if the output is a ring or window: the same values further
    along one axis, and new ones at the end that became free; else None."""
    if came_in is None or came_in.shape != expected.shape or came_in.dtype != expected.dtype:
        return None
    e, s = _bits(expected), _bits(came_in)
    for axis, size in enumerate(expected.shape):
        for distance in range(1, min(size // 2, MAX_SHIFT) + 1):
            for sign in (1, -1):
                moved = np.roll(came_in, -sign * distance, axis)
                kept = np.arange(size - distance) + (0 if sign > 0 else distance)
                same = np.array_equal(e.take(kept, axis), _bits(moved).take(kept, axis))
                if same and not np.array_equal(e, s):
                    free = sorted(set(range(size)) - {int(k) for k in kept})
                    return _put(moved, axis, tuple(free), came_in.take(free, axis))
    return None


def _claims(held: Held, given: Array) -> Iterator[tuple[str, Array]]:
    """Yields what the tensor may hold instead, the most specific first: text and values."""
    expected, came_in = held.expected, held.came_in
    written = find_written(expected, came_in)
    ring = find_ring(expected, came_in)
    in_ring = find_written(expected, ring)
    is_ring = in_ring is not None and (written is None or len(in_ring.places) < len(written.places))
    written, base = (in_ring, ring) if is_ring else (written, came_in)
    if came_in is not None and came_in.shape == expected.shape:
        if written is None or is_ring:
            yield "not written: it holds what came in (stale)", came_in
        else:
            yield f"{_slots(held.name, written)} not written: {_holds(written)} what came in", came_in
    if written is not None and base is not None:
        yield from _moved_writes(held, written, base, is_ring)
        yield from _wrong_writes(held, written, given)
    yield from _wrong_places(held, given)
    if held.before is not None and held.before.shape == expected.shape:
        yield "written one step late: it is the state of the step before", held.before
    if held.ran_before is not None and held.ran_before.shape == expected.shape:
        yield "stale: it is the state of the run before", held.ran_before
    if held.first is not None and held.first.shape == expected.shape:
        yield "reset: it is the initial state", held.first
    for name, other in held.others.items():
        if other.shape == expected.shape and other.dtype == expected.dtype:
            yield f"of another state: it has the bytes of {name}", other
    yield from _exchanged_parts(expected, given)
    yield from _shifts(expected, came_in)
    yield from _narrowed(expected)


def _moved_writes(held: Held, written: Written, base: Array, is_ring: bool) -> Iterator[tuple[str, Array]]:
    """Yields writes to other slots than wanted, or of the values of the step before. base: the state without what the step
    wrote. is_ring: the state is moved, so that each step writes to the same slots."""
    expected, axis, size = held.expected, written.axis, held.expected.shape[written.axis]
    slots, new = _slots(held.name, written), expected.take(written.places, axis)
    if is_ring:
        yield f"{slots} not written, the others are moved: {_holds(written)} what came in", base
        if held.came_in is not None:
            yield f"{slots} written, the others are not moved", _put(held.came_in, axis, written.places, new)
            away = 1 if written.places[0] else -1
            wrong_end = tuple(size - 1 - p for p in reversed(written.places))
            turned = _put(np.roll(held.came_in, away * len(written.places), axis), axis, wrong_end, new)
            yield f"{slots} not written, its values are at the other end: moved in the other direction", turned
    earlier = written if is_ring else find_written(held.before, held.came_before) if held.before is not None else None
    if held.before is not None and held.before.shape == expected.shape and earlier is not None:
        if earlier.axis == axis and len(earlier.places) == len(written.places):
            late = _put(expected, axis, written.places, held.before.take(earlier.places, axis))
            yield f"{slots}: {_holds(written)} what the step before wrote, one step late", late
    for distance in _distances(size):
        places = [(p + distance) % size for p in written.places]
        is_wrapped = any(not 0 <= p + distance < size for p in written.places)
        at = ", ".join(map(str, places[:MAX_PLACES]))
        how = f"wrapped by {distance:+d}" if is_wrapped else f"shifted by {distance:+d}"
        moved = _put(base, axis, tuple(places), new)
        yield f"{slots} not written, its values are at {at} instead ({how})", moved
        both = _put(expected, axis, tuple(places), new)
        yield f"{slots} written at {at}, too ({how})", both


def _wrong_writes(held: Held, written: Written, given: Array) -> Iterator[tuple[str, Array]]:
    """Yields other values in the slots that the step wrote: of another head, another state, or another type."""
    expected, axis, places = held.expected, written.axis, written.places
    slots, new = _slots(held.name, written), expected.take(written.places, axis)
    for text, part in _exchanged_parts(new, given.take(places, axis)):
        yield f"{slots}: {text}", _put(expected, axis, places, part)
    for name, other in held.others.items():
        if other.shape == expected.shape and other.dtype == expected.dtype:
            yield f"{slots} of another state: as in {name}", _put(expected, axis, places, other.take(places, axis))
    for text, part in _narrowed(new):
        yield f"{slots} {text}", _put(expected, axis, places, part)


def _wrong_places(held: Held, given: Array) -> Iterator[tuple[str, Array]]:
    """Yields zeros, or what came in, at the places along an axis at which the tensor is wrong."""
    expected = held.expected
    places = find_written(given, expected)
    if places is None:
        return
    slots = _slots(held.name, places)
    shape = [len(places.places) if k == places.axis else n for k, n in enumerate(expected.shape)]
    yield f"{slots} lost: zeros", _put(expected, places.axis, places.places, np.zeros(shape, expected.dtype))
    for text, source in (("what came in", held.came_in), ("what it held a step before", held.before)):
        if source is not None and source.shape == expected.shape and source.dtype == expected.dtype:
            part = source.take(places.places, places.axis)
            yield f"{slots} not written: {_holds(places)} {text}", _put(expected, places.axis, places.places, part)


def _distances(size: int) -> list[int]:
    """Returns the distances by which a place may be moved along an axis, the nearest first."""
    near = [d for k in range(1, min(size, MAX_SHIFT)) for d in (k, -k) if abs(d) <= size // 2 or size <= MAX_SHIFT]
    return list({d % size: d for d in reversed(near)}.values())[::-1]


def _put(values: Array, axis: int, places: tuple[int, ...], parts: Array) -> Array:
    """Returns a copy with these parts at these places along an axis."""
    copy = np.array(values)
    np.moveaxis(copy, axis, 0)[list(places)] = np.moveaxis(parts, axis, 0)
    return copy


def _exchanged_parts(expected: Array, given: Array) -> Iterator[tuple[str, Array]]:
    """Yields the expected values with one part along an axis replaced by another part."""
    wrong = _bits(given) != _bits(expected)
    for axis, size in enumerate(expected.shape):
        others = tuple(k for k in range(expected.ndim) if k != axis)
        parts = [int(p) for p in np.flatnonzero(wrong.any(axis=others))]
        if not 1 < size <= MAX_TRIED_PARTS or len(parts) not in (1, 2):
            continue
        if len(parts) == 2:
            text = f"{_part(expected, axis, parts[0])} and {parts[1]} are exchanged"
            yield text, _put(expected, axis, (parts[0], parts[1]), expected.take(parts[::-1], axis))
        for part, other in ((p, k) for p in parts for k in range(size) if k != p):
            what = ": of another sequence" if axis == 0 else ""
            text = f"{_part(expected, axis, part)} has the values of {other}{what}"
            yield text, _put(expected, axis, (part,), expected.take([other], axis))


def _part(values: Array, axis: int, index: int) -> str:
    """Returns the name of a part: the batch, the head of a cache of four axes, or the index of an axis."""
    if axis == 0:
        return f"sequence {index} of the batch"
    return f"head {index}" if values.ndim == 4 and axis == 1 else f"part {index} of axis {axis}"


def _shifts(expected: Array, came_in: Array | None) -> Iterator[tuple[str, Array]]:
    """Yields the expected values moved along an axis, cyclically or with zeros or what came in at the free places."""
    for axis, size in enumerate(expected.shape):
        for distance in _distances(size) if size > 1 else ():
            rolled = np.roll(expected, distance, axis)
            yield f"shifted by {distance:+d} along axis {axis}, wrapped around", rolled
            free = tuple(range(distance)) if distance > 0 else tuple(range(size + distance, size))
            shape = [len(free) if k == axis else n for k, n in enumerate(expected.shape)]
            yield (
                f"shifted by {distance:+d} along axis {axis}",
                _put(rolled, axis, free, np.zeros(shape, expected.dtype)),
            )
            if came_in is not None and came_in.shape == expected.shape:
                kept = _put(rolled, axis, free, came_in.take(free, axis))
                yield f"shifted by {distance:+d} along axis {axis}, the rest is what came in", kept


def _narrowed(expected: Array) -> Iterator[tuple[str, Array]]:
    """Yields the expected floats as other types keep them."""
    if expected.dtype != np.float32:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        yield "rounded to float16: another dtype", expected.astype(np.float16).astype(np.float32)
        bits = np.ascontiguousarray(expected).view(np.uint32)
        nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
        yield "rounded to bfloat16: another dtype", nearest.view(np.float32)
        yield "cut to bfloat16: another dtype", (bits & np.uint32(0xFFFF0000)).view(np.float32)
        largest = float(np.abs(expected, where=np.isfinite(expected), out=np.zeros_like(expected)).max(initial=0.0))
        if largest:
            step = np.float32(largest / 127)
            floats = expected.astype(np.float32)
            yield "rounded to int8 by its largest value: another dtype", np.rint(floats / step) * step
    yield "in whole numbers: another dtype", np.trunc(expected)


def _holds(written: Written) -> str:
    return "it holds" if len(written.places) == 1 else "they hold"


def _slots(name: str, written: Written) -> str:
    """Returns the slots in words, with the layer that the name tells."""
    shown = ", ".join(map(str, written.places[:MAX_PLACES])) + (" ..." if len(written.places) > MAX_PLACES else "")
    layer = LAYER.search(name)
    where = f" of layer {layer[1]}" if layer is not None else ""
    return f"slot{'s' if len(written.places) > 1 else ''} {shown}{where}"


def _name_places(name: str, values: Array, wrong: Array) -> str:
    """Returns where elements are wrong: how many, and along which axis they lie in few places, with layer and head."""
    total, parts = int(wrong.sum()), []
    layer = LAYER.search(name)
    for axis, size in enumerate(values.shape):
        others = tuple(k for k in range(values.ndim) if k != axis)
        places = np.flatnonzero(wrong.any(axis=others))
        if size > 1 and len(places) <= max(size // 2, 1):
            shown = ", ".join(str(int(p)) for p in places[:MAX_PLACES]) + (" ..." if len(places) > MAX_PLACES else "")
            head = values.ndim == 4 and axis == 1
            parts.append(f"head {shown}" if head else f"{shown} of axis {axis}")
    where = [f"layer {layer[1]}"] if layer is not None else []
    return f"{total} of {values.size} elements" + (f" ({', '.join([*where, *parts])})" if where or parts else "")
