"""Judges an operator that qverify does not compute itself: a side that rounds in its own way is right if one of the engine's real
sets of kernels on this host gives every byte, the same one at all operators of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from qverify.compare.channels import describe_channels
from qverify.compare.limits import FLOAT_SHARE
from qverify.compare.paired_values import bits_equal
from qverify.errors import QVerifyError
from qverify.model_bin.units import Unit
from qverify.report.document import Forced, Verdict
from qverify.tensors.recording import Array

RunUnit = Callable[[Unit, Mapping[str, Array]], Mapping[str, Array]]
MANY_STEPS = (
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN",
    "BIDIRECTIONAL_SEQUENCE_RNN", "RNN", "SVDF", "IF", "WHILE", "STABLEHLO_COMPOSITE",
)  # operators that round many values one after another, so that other kernels may end several LSB apart  # fmt: skip
ELSEWHERE_LSB = 1, 8  # of integers likewise: of an operator that rounds once, and of one of MANY_STEPS
KEYS = {
    "LiteRT's reference kernels": "litert-reference",
    "LiteRT's default kernels": "litert-optimized",
    "XNNPACK": "litert-xnnpack",
}  # of documented_rounding.NAMES, by the name of a set
OF_ENGINES = {"TFLM's arithmetic": "tflm"}  # sets that only this engine has, with the name of its shipped arithmetic
ONE_SIDED = 16  # elements at least that differ in one direction, for it to be a finding
WHOLLY = 0.25  # of the variance: two kernels of one operator whose outputs are farther apart compute different things
MIN_ELEMENTS = 8  # of outputs of which that can be said
ACCEPTED = "every byte is that of {}"
ELSEWHERE_SHARE = 2.0**-6  # of the largest value: floats of another machine that are farther apart are a finding


def sets_of(run: Mapping[str, RunUnit], engine: str) -> dict[str, RunUnit]:
    """Returns the sets of kernels that a side of this engine may have: that of another engine is none."""
    return {name: function for name, function in run.items() if OF_ENGINES.get(name, engine) == engine}


class KernelSets:
    """The sets of kernels, each with the function that runs a unit with it."""

    def __init__(self, run: Mapping[str, RunUnit]):
        self._run, self._made = run, dict[tuple[str, str], tuple[Mapping[str, Array], Mapping[str, Array]]]()

    @property
    def is_known(self) -> bool:
        """Whether there is any set."""
        return bool(self._run)

    def find(self, unit: Unit, output: str, given: Mapping[str, Array], recorded: Array) -> list[str]:
        """Returns the sets that give every byte of a recorded output from these inputs. A set that lacks the operator, or
        fails, gives none."""
        found = []
        for name in self._run:
            made = self._compute(name, unit, given).get(output)
            if made is not None and (made.shape, made.dtype) == (recorded.shape, recorded.dtype):
                found += [name] if bits_equal(made, recorded) else []
        return found

    def find_common(
        self, units: list[Unit], read: Callable[[str], Array | None], judged: Callable[[Unit], list[str]]
    ) -> str:
        """Returns the set that gives every byte of every unit from the recorded inputs, "" if none does or a tensor is missing.
        read: returns a recorded tensor. judged: the outputs of a unit that a side gives."""
        return next((name for name in self._run if all(self._gives(name, u, read, judged(u)) for u in units)), "")

    def _gives(self, name: str, unit: Unit, read: Callable[[str], Array | None], outputs: list[str]) -> bool:
        given = {source: value for source in unit.inputs if (value := read(source)) is not None}
        if len(given) < len(unit.inputs):
            return False
        made = self._compute(name, unit, given)
        pairs = [(made.get(o), read(o)) for o in outputs]
        return all(
            a is not None and b is not None and (a.shape, a.dtype) == (b.shape, b.dtype) and bits_equal(a, b)
            for a, b in pairs
        )

    def _compute(self, name: str, unit: Unit, given: Mapping[str, Array]) -> Mapping[str, Array]:
        key = name, unit.name
        known = self._made.get(key)
        if known is not None and all(known[0].get(n) is v for n, v in given.items()):
            return known[1]
        try:
            made = self._run[name](unit, given)
        except (QVerifyError, ValueError, MemoryError):
            made = {}
        self._made[key] = dict(given), made
        return made


def judge_by_kernels(
    measured: Forced,
    op: str,
    made: Array,
    recorded: Array,
    names: list[str],
    here: bool,
    inputs_same: bool,
    elements_read: int = 0,
) -> Forced:
    """Returns the verdict on an output that differs from what the reference's kernels make. measured: how far. names: the
    sets that give every byte; accept_kernel_sets() makes of it what all operators of the kind allow. here: whether the side
    ran on this host with kernels that are known. What no set gives is a finding, but for a small difference of a side whose
    kernels may round otherwise than those of this host: INCONCLUSIVE. One that has one direction at more elements than lie at ties is
    a finding, too. elements_read: number of elements of the operator's first operand."""
    from qverify.compare.foreign import describe_direction

    parts = [describe_direction(made, recorded), describe_channels(made, recorded)]
    parts.append("the inputs of both sides are equal" if inputs_same else "the inputs differ")
    if names:
        parts.append(f"{' and '.join(names)} give every byte here, and no kernels at every operator of this kind")
    else:
        parts.append("no kernels of LiteRT on this host give every byte")
    why = "; ".join(part for part in parts if part)
    small = _is_small(measured, made, here, op)
    if small and not names and op not in MANY_STEPS and exceeds_ties(op, made, recorded, elements_read):
        parts.append("in one direction, at more elements than can lie at ties of a rounding")
        why, small = "; ".join(part for part in parts if part), False
    verdict: Verdict = "INCONCLUSIVE" if small else "FAILED"
    wrong = measured.mismatched or 0
    at_fault = "" if verdict == "INCONCLUSIVE" else measured.on
    return replace(measured, verdict=verdict, why=why, unexplained=wrong, at_fault=at_fault)


def exceeds_ties(op: str, made: Array, recorded: Array, elements_read: int) -> bool:
    """Returns whether integers differ in one direction only, and at more elements than another rule for ties explains: at most
    one element in two lies at a tie (of a sum of two elements; of a mean of n, one in n), and chance adds 4 standard deviations."""
    if made.dtype.kind not in "iu":
        return False
    apart = recorded.astype(np.int64) - made.astype(np.int64)
    differing, limits = int(np.count_nonzero(apart)), np.iinfo(made.dtype.name)
    if differing < ONE_SIDED or (apart.min() < 0 < apart.max()):
        return False
    free = int(np.count_nonzero((made != limits.min) & (made != limits.max)))
    joined = max(elements_read // max(made.size, 1), 2) if op == "MEAN" else 2
    share = 1 / joined
    return differing > free * share + 4 * float(np.sqrt(free * share * (1 - share)))


def differ_wholly(made: Array, recorded: Array) -> bool:
    """Returns whether two arrays are so far apart that no rounding is why: in the sum of squares by more than a quarter of what
    the more varied one varies, and somewhere by more than 8 LSB of integers, 2^-6 of the largest float."""
    if made.shape != recorded.shape or made.size < MIN_ELEMENTS or made.dtype.kind not in "iuf":
        return False
    a, b = made.astype(np.float64), recorded.astype(np.float64)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    allowed = ELSEWHERE_SHARE * float(np.abs(a).max()) if made.dtype.kind == "f" else float(ELSEWHERE_LSB[1])
    varied = max(float(np.sum((x - np.mean(x)) ** 2)) for x in (a, b))
    return bool(float(np.abs(a - b).max()) > allowed and float(np.sum((a - b) ** 2)) > WHOLLY * varied)


def leave_wide_limit_open(found: Forced) -> Forced:
    """Returns the verdict on an output that is wholly different from what qverify computes: no set of kernels acquits it, and a
    limit within which it lies shows nothing."""
    if found.verdict != "PASSED":
        return found
    why = f"it is wholly different from what is computed; that it lies {found.limit} shows nothing"
    return replace(found, verdict="INCONCLUSIVE", why=why, unexplained=found.mismatched or 0)


def leave_wholly_different_open(measured: Forced, names: list[str]) -> Forced:
    """Returns the verdict on an output that kernels of LiteRT give and that is wholly different from what the reference's give:
    one of them does not compute the operator, and which one is not known."""
    why = f"{' and '.join(names)} give every byte, and the reference's kernels something wholly different: one of them does not compute the operator"
    return replace(measured, verdict="INCONCLUSIVE", why=why, unexplained=measured.mismatched or 0)


def _is_small(measured: Forced, made: Array, here: bool, op: str) -> bool:
    """Returns whether the elements differ by so little that other kernels of the same engine may be why."""
    if made.dtype.kind != "f":
        most = ELSEWHERE_LSB[op in MANY_STEPS]
        return not here and made.dtype.kind in "iu" and measured.max_lsb is not None and measured.max_lsb <= most
    finite = np.abs(made[np.isfinite(made)])
    largest = float(finite.max(initial=0.0))
    return (measured.max_abs or 0.0) <= largest * (
        FLOAT_SHARE if here else ELSEWHERE_SHARE
    ) and finite.size == made.size


def accept_kernel_sets(
    units: list[Unit],
    forced: dict[str, Forced],
    giving: Mapping[str, list[str]],
    gives_all: Callable[[Unit, str], bool | None],
    converted: bool,
) -> None:
    """Sets the verdicts on the operators of a kind that differ, and that nothing else accepts, to PASSED where one set of kernels
    gives every byte. It must give every byte of the other operators of the kind, too, apart from those that no set explains. giving: the sets that give every byte of an output that differs. gives_all:
    whether a set gives every byte of a unit that is equal, or that passed otherwise. converted: whether the units are qverify's
    own, so that it knows what is right: an integer more than 1 LSB from it is wrong whatever kernel gives it."""
    if not any(giving.values()):
        return
    for op in dict.fromkeys(unit.op for unit in units):
        outputs = {u.name: [o for o in u.outputs if o in forced] for u in units if u.op == op}
        members = [u for u in units if u.op == op and outputs[u.name]]
        open_ones = {u.name: [o for o in outputs[u.name] if forced[o].verdict != "PASSED"] for u in members}
        known = [u for u in members if converted and not _follows_reference(u)]
        near = [u for u in members if u not in known or not any(_is_far(forced[o]) for o in open_ones[u.name])]
        explained = [u for u in near if any(giving.get(o) for o in open_ones[u.name])]
        passed = [u for u in members if not open_ones[u.name]]
        names = dict.fromkeys(n for u in explained for o in open_ones[u.name] for n in giving.get(o, ()))
        for name in names:
            fits = all(name in giving.get(o, ()) for u in explained for o in open_ones[u.name])
            if fits and all(gives_all(unit, name) is not False for unit in passed):
                for output in (o for u in explained for o in open_ones[u.name]):
                    limit, found = ACCEPTED.format(name), forced[output]
                    forced[output] = replace(found, verdict="PASSED", limit=limit, why="", unexplained=0, at_fault="")
                break


def _is_far(found: Forced) -> bool:
    return found.max_lsb is not None and found.max_lsb > 1


def _follows_reference(unit: Unit) -> bool:
    """Returns whether qverify computes a converted operator as the reference kernels do where others are right: SUM of int8,
    a mean through a table, which they wrap."""
    return len(unit.nodes) > 1 and unit.nodes[0].op == "reduce_mean"
