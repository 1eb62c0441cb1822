"""Recognises values that a side gives under another tensor's name: in real values, or in the integers that they stand
for, each read by the scale of its name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_of
from qverify.compare.exchange import Exchange
from qverify.compare.judge import Judged
from qverify.compare.orders import count_values
from qverify.compare.side_values import (
    CLEAR,
    MIN_BITS,
    MIN_VALUES,
    Real,
    Sides,
    at_least,
    average_deviation,
    bits_of_a_match,
    is_output,
    read_codes,
    read_real,
    read_sides,
)
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.report.side_names import named

MOST_STATED = 3  # in a verdict line
MIN_SHARE = 0.98  # of the elements, that must agree with those of the other tensor
MIN_WRONG = 0.1  # of the elements, that must be wrong in their own place
MOST_OTHERS = 64  # tensors of the same size, in whose place a tensor may be
AT_ONCE = 1 << 14  # elements that are compared at once
Read = Callable[[Judged, Graph | None, str, str], Sides | None]


def state_exchanges(judged: Judged) -> None:
    """Adds to the reason of a pair that failed which tensors are under each other's names: they are one mistake, whatever fails
    besides."""
    found = sorted(judged.exchanges, key=lambda each: not each.both)
    if judged.pair.verdict != "FAILED" or not found:
        return
    more = f" and {count(len(found) - MOST_STATED, 'more tensor')}" if len(found) > MOST_STATED else ""
    words = f"{', '.join(map(str, found[:MOST_STATED]))}{more}"
    wrong = {n for each in found for n in ((each.name, each.other) if each.both else (each.name,))}
    rest = sum(row.verdict == "FAILED" for name, row in judged.rows.items() if name not in wrong)
    words += f"; {count(rest, 'tensor', 'fails', 'fail')} besides" if rest else ", and nothing else fails"
    judged.pair.why = f"{words}; {judged.pair.why}" if judged.pair.why else words


def find_exchange(judged: Judged, graph: Graph | None, name: str) -> Exchange | None:
    """Returns what is found if side b gives another tensor's values under this name, or None. Outputs may differ by the
    rounding of a chip besides. Those that are wholly explained so are added to judged.moved."""
    row = judged.rows[name]
    others = [n for n, other in judged.rows.items() if n != name and other.elements == row.elements]
    others.sort(key=lambda n: judged.rows[n].final != row.final)  # outputs are exchanged for outputs
    for read in (read_sides, read_codes, read_real):
        own = read(judged, graph, name, name)
        if own is None or own.given.size != own.wanted.size or _wrong_in_place(own, own.step) is None:
            continue
        for other in others[:MOST_OTHERS]:
            if found := _find_in(judged, graph, (name, other), own, read):
                return found
    return None


def _find_in(judged: Judged, graph: Graph | None, names: tuple[str, str], own: Sides, read: Read) -> Exchange | None:
    name, other = names
    crossed = read(judged, graph, other, name)
    if crossed is None or crossed.wanted.size != own.wanted.size:
        return None
    if not np.array_equal(crossed.given.reshape(-1), own.given.reshape(-1)):
        return None  # integers beside real values, which are not compared with each other
    rounds = all(is_output(judged, graph, n) for n in names)
    tolerance = _find_tolerance(crossed, own, rounds)
    if tolerance is None:
        return None
    a, b = (named(side) for side in (judged.pair.a, judged.pair.b))
    values, by = ("integers", ", read by the scale of its name") if read is read_codes else ("values", "")
    evidence = f" ({count(own.wanted.size, 'element')}; {at_least(count_values(crossed.wanted, crossed.step))} different values"
    evidence += f"; within {_round_up(tolerance)} LSB)" if tolerance > crossed.step == 1 else ")"
    if _is_within_a_step(crossed):
        judged.moved.add(name)
    back, theirs = read(judged, graph, name, other), read(judged, graph, other, other)
    sizes = {side.given.size for side in (back, theirs) if side is not None}
    if back is not None and theirs is not None and sizes == {own.wanted.size}:
        if _find_tolerance(back, theirs, rounds) is not None:
            if _is_within_a_step(back):
                judged.moved.add(other)
            each = f"each has on {b} the {values} of the other in {a}{by}"
            return Exchange(name, other, True, f"{name} and {other} are exchanged: {each}{evidence}")
    text = f"{name}: the {values} that {b} gives are those of {other} in {a}{by}{evidence}"
    return Exchange(name, other, False, text)


def _is_within_a_step(sides: Sides) -> bool:
    """Returns whether every element is within a step, of floats equal."""
    apart = np.abs(sides.given.reshape(-1) - sides.wanted.reshape(-1))
    return bool((apart <= sides.step).all())


def _find_tolerance(crossed: Sides, own: Sides, rounds: bool) -> float | None:
    """Returns how far the values given under one name are at most from those wanted under another, but for a few, if they
    are these and not those wanted under their own; else None. crossed: with the other's wanted values. own: with its
    own. rounds: whether they may differ by more than a step, if they are clearly nearer to the other's."""
    given, wanted = crossed.given.reshape(-1), crossed.wanted.reshape(-1)
    if not _is_share_below(given, wanted, crossed.step):
        tolerance = crossed.step
    elif rounds and _is_clearly_nearer(given, wanted, own.wanted.reshape(-1)):
        near = np.sort(np.abs(given - wanted))
        tolerance = float(near[min(int(MIN_SHARE * near.size), near.size - 1)])
    else:
        return None
    wrong = _wrong_in_place(own, max(own.step, tolerance))
    if wrong is None:
        return None
    values = count_values(wanted[wrong], tolerance)
    bits = values * bits_of_a_match(wanted[wrong], given, tolerance) - log2_of(MOST_OTHERS)
    return tolerance if values >= MIN_VALUES and bits >= MIN_BITS else None


def _is_clearly_nearer(given: Real, wanted: Real, own: Real) -> bool:
    """Returns whether the given values are CLEAR times nearer to the wanted ones than to their own, and than these are to
    each other."""
    near = CLEAR * float(np.mean(np.abs(given - wanted)))
    return near <= float(np.mean(np.abs(given - own))) and near <= average_deviation(wanted)


def _wrong_in_place(own: Sides, step: float) -> npt.NDArray[np.bool_] | None:
    """Returns which elements, flat, are more than a step off in their own place; None if too few are."""
    wrong = np.abs(own.given.reshape(-1) - own.wanted.reshape(-1)) > step
    return wrong if np.count_nonzero(wrong) >= max(MIN_VALUES, MIN_WRONG * wrong.size) else None


def _is_share_below(given: Real, wanted: Real, step: float) -> bool:
    """Returns whether fewer elements agree within a step than MIN_SHARE, as soon as enough of them do not."""
    far = 0
    for part in (slice(start, start + AT_ONCE) for start in range(0, given.size, AT_ONCE)):
        far += int(np.count_nonzero(np.abs(given[part] - wanted[part]) > step))
        if (given.size - far) / given.size < MIN_SHARE:
            return True
    return False


def _round_up(number: float) -> int:
    """Returns the next power of two, so that similar frames have the same words."""
    return 1 << (int(np.ceil(number)) - 1).bit_length()
