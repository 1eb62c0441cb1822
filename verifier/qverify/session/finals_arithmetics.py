"""Tries the known roundings on a board of which only final outputs are known: each is computed by the simulator from the
same inputs, and one that gives every value is said. It is a statement beside the verdict, and never an acquittal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.functions64 import log2_choices, log2_of
from qverify.compare.catalogue import describe
from qverify.compare.find_arithmetics import EVIDENCE_BITS
from qverify.compare.stated_arithmetic import read_stated
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import QVerifyError
from qverify.model_bin.graph import ROUNDINGS, Graph
from qverify.plural import count
from qverify.printable import printable
from qverify.session.offline.dequantized_outputs import find_dequantized_outputs
from qverify.session.stated_arithmetics import list_shipped, open_forms
from qverify.sides.simulator import Simulator
from qverify.tensors.codes import store_as
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify.session.models import Models

SECONDS = 20.0  # of computing, after which no further rounding is begun
ROUNDOFF = 2.0**-18  # of a float itself, as in VERDICTS.md
PRINTED = 1e-3  # relative, of a scale that was printed with few digits
MAX_SHOWN = 3
Mask = npt.NDArray[np.bool_]


@dataclass(slots=True)
class _Outputs:
    """The final outputs that the board gave. values: as the network stores them, by name. tolerance: how near floats are
    that were printed with few decimals. stored: for outputs that the board gave as the integers that the network
    dequantizes, the tensor of these."""

    values: dict[str, Array]
    tolerance: float
    stored: dict[str, str] = field(default_factory=dict)

    def run(self, graph: Graph, inputs: PreparedInputs) -> dict[str, Array]:
        """Returns what the simulator computes, in the form in which the board gave it."""
        made = Simulator(graph).run(inputs, keep={*self.stored.values()}, digests=False).tensors
        return {name: made[self.stored.get(name, name)] for name in self.values}

    def near(self, name: str, a: Array, b: Array) -> Mask:
        """Returns which elements of two values of an output are the same, as far as the board's are known."""
        if a.dtype.kind != "f":
            return np.asarray(a == b)
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            allowed = np.maximum(self.tolerance, ROUNDOFF * np.abs(x))
            return np.asarray((np.abs(x - y) <= allowed) | (x == y) | (np.isnan(x) & np.isnan(y)))


@dataclass(slots=True)
class _Tried:
    """One rounding. moved: elements of each output that it computes otherwise than the reference. given: outputs of
    which it gives every value of the board."""

    name: str
    moved: dict[str, Mask] = field(default_factory=dict)
    given: frozenset[str] = frozenset()

    def decided(self, outputs: frozenset[str]) -> int:
        """Returns how many elements of these outputs it computes otherwise than the reference."""
        return sum(int(np.count_nonzero(self.moved[n])) for n in outputs)


def gives_finals_alone(recording: Recording, graph: Graph) -> bool:
    """Returns whether a side gave final outputs, as integers or real values, and no other tensor of the network."""
    given = {n for n in recording.specs if n not in recording.missing}
    inner = {*graph.observable()} - {*graph.inputs, *graph.outputs, *find_dequantized_outputs(graph).values()}
    return bool(given & {*graph.outputs}) and not given & inner


def name_arithmetics_of_finals(
    models: Models, folder: str, inputs: PreparedInputs, board: Recording, who: str
) -> tuple[str, str]:
    """Returns what is said of the final outputs of a side that differ from the reference's: the roundings that give
    them, for the verdict line, or ""; and what was tried, for the report. folder: of the model, with its external data.
    who: the side in words."""
    graph = models.graph
    if models.compiled is None or models.alone is not None or graph.islands or read_stated(graph) is not None:
        return "", ""
    outputs = _read_outputs(graph, board)
    expected = outputs.run(graph, inputs)
    differing = [n for n, v in outputs.values.items() if not outputs.near(n, v, expected[n]).all()]
    if not differing:
        return "", ""
    tried, left = _try_all(models, _list_roundings(models, folder), inputs, outputs, expected)
    found = _choose(tried, frozenset(differing))
    late = f"; not tried within {SECONDS:g} s of computing: {', '.join(left)}" if left else ""
    if not found:
        known = count(len(tried), "known rounding")
        return "", f"none of {known} that the simulator computes gives the final outputs of {who}{late}"
    text = _describe(found, tried, outputs, frozenset(differing), who)
    return text, f"{text}{late}; it is computed from the same inputs, and changes no verdict"


def _read_outputs(graph: Graph, board: Recording) -> _Outputs:
    """Returns the outputs of the board that can be compared with what the network stores."""
    values, sources = dict[str, Array](), dict[str, str]()
    makers = graph.producers()
    for name in graph.outputs:
        spec, own = graph.spec(name), board.specs.get(name)
        if own is None or name in board.missing or name not in board.tensors:
            continue
        value, maker = board.tensors[name], makers.get(name)
        source = maker.inputs[0] if maker is not None and maker.op == "dequantize" else None
        if source is not None and _is_stored_as(own, graph.spec(source)):
            sources[name], spec = source, graph.spec(source)
        if not spec.quantized and own.quantized and value.dtype.kind in "iu":
            value = own.dequantized(value)
        stored = value if name in sources else store_as(value, own, spec)
        if not isinstance(stored, str) and stored.shape == spec.shape and stored.dtype.kind == spec.numpy_dtype.kind:
            values[name] = stored
    decimals = board.settings.get("precision")
    return _Outputs(values, 0.5 * 10.0**-decimals if isinstance(decimals, int) else 0.0, sources)


def _is_stored_as(own: TensorSpec, stored: TensorSpec) -> bool:
    """Returns whether a board's integers are those of a tensor of the network, with scales that may have been printed."""
    if (own.dtype, own.shape, own.zero_point) != (stored.dtype, stored.shape, stored.zero_point) or not own.quantized:
        return False
    return bool(np.allclose(own.scale, stored.scale, rtol=PRINTED, atol=0))


def _try_all(
    models: Models,
    roundings: Iterable[tuple[str, CompilerOptions]],
    inputs: PreparedInputs,
    outputs: _Outputs,
    expected: Mapping[str, Array],
) -> tuple[list[_Tried], list[str]]:
    """Returns the roundings that compute an output otherwise than the reference, and the names of those for which there
    was no time."""
    tried, left = list[_Tried](), list[str]()
    end = time.process_time() + SECONDS
    for name, options in roundings:
        if time.process_time() > end:
            left.append(name)
            continue
        try:
            made = outputs.run(compile_model(models.source or b"", "", options).graph, inputs)
        except QVerifyError:  # not expressed in this rounding
            continue
        one = _Tried(name)
        one.moved = {n: ~outputs.near(n, made[n], expected[n]) for n in outputs.values}
        one.given = frozenset(n for n, v in outputs.values.items() if outputs.near(n, v, made[n]).all())
        if one.decided(frozenset(one.moved)):
            tried.append(one)
    return tried, left


def _list_roundings(models: Models, folder: str) -> Iterator[tuple[str, CompilerOptions]]:
    """Yields each rounding by name, with the options that compile the network in it."""
    options = CompilerOptions.restored(models.graph.meta.get("options", {}), folder, {})
    for mode in ROUNDINGS:
        if mode != models.graph.rounding:
            yield f"rounding {mode}", replace(options, rounding=mode)
    for name in list_shipped():
        yield f"arithmetic {name}", replace(options, rounding=ROUNDINGS[0], arithmetic=open_forms(name))


def _choose(tried: list[_Tried], differing: frozenset[str]) -> list[_Tried]:
    """Returns the roundings that give most of the outputs that differ, more than half, if that is no chance."""
    most = max((len(one.given & differing) for one in tried), default=0)
    if 2 * most <= len(differing):
        return []
    found = [one for one in tried if len(one.given & differing) == most]
    return [one for one in found if _measure_evidence(one, tried, one.given & differing) >= EVIDENCE_BITS]


def _measure_evidence(one: _Tried, tried: list[_Tried], outputs: frozenset[str]) -> float:
    """Returns the bits that tell which of the elements that roundings move this one moves, and in which direction, less
    those that choose one of the roundings."""
    movable = sum(int(np.count_nonzero(np.any([t.moved[n] for t in tried], axis=0))) for n in outputs)
    decided = one.decided(outputs)
    return log2_choices(movable, decided) + decided - log2_of(len(tried))


def _describe(found: list[_Tried], tried: list[_Tried], outputs: _Outputs, differing: frozenset[str], who: str) -> str:
    names = [_show(one.name) for one in found[:MAX_SHOWN]]
    more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    verb, others = ("gives" if len(found) == 1 else "give"), len(tried) - len(found)
    given, all_outputs = found[0].given, frozenset(outputs.values)
    if given == all_outputs:
        values = sum(v.size for v in outputs.values.values())
        what, rest = f"all {count(values, 'value')} of {who}", f"(of {count(others, 'other rounding')} none)"
    else:
        lacking = [printable(n) for n in outputs.values if n not in given]
        shown = f"{', '.join(lacking[:MAX_SHOWN])}{' ...' if len(lacking) > MAX_SHOWN else ''}"
        what = f"every value of {len(given)} of {count(len(all_outputs), 'output')} of {who}"
        rest = f"and not {shown} (of {count(others, 'other rounding')} none gives as many)"
    return f"{' and '.join(names)}{more} {verb} {what} {rest}"


def _show(name: str) -> str:
    kind, _, mode = name.partition(" ")
    return describe(mode) if kind == "rounding" else f"{name} (--arithmetic {mode})"
