"""A function that is x times a gate (HardSwish, SiLU, Gelu) is computed in pieces, with a rounding between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.arithmetic.float32 import erf64, sigmoid64, tanh64
from qverify.triage.case import Array, Case, UnitChange, limits
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.plain_faults.other_function import SQRT_2_PI, SQRT_HALF

NAME = "function-in-pieces"
OPS = ("lookup",)
OFF = 1.0  # LSB by which an entry of the table may be off the function that is recognized
GATES: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "HardSwish": ("HardSigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "SiLU": ("Sigmoid", sigmoid64),
    "x sigmoid(1.702 x)": ("sigmoid(1.702 x)", lambda x: sigmoid64(1.702 * x)),
    "Gelu": ("(1 + erf(x / sqrt 2)) / 2", lambda x: 0.5 * (1.0 + erf64(x * SQRT_HALF))),
    "Gelu with tanh": (
        "(1 + tanh(...)) / 2",
        lambda x: 0.5 * (1.0 + tanh64(SQRT_2_PI * (x + 0.044715 * x * x * x))),
    ),
}
OF_BYTE = (256, 255, 128, 127)
LEVELS = (*OF_BYTE, 64, 32, 16, 1024, 4096, 32768)  # steps of a gate of size 1
ROUNDS: dict[str, Callable[[Array], Array]] = {
    "rounded": np.rint,
    "rounded half up": lambda v: np.floor(v + 0.5),
    "cut": np.floor,
}
Pieces = Callable[[Array, float], Array]  # of the real x and the output's step: the output in steps, not yet rounded


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op != "lookup" or len(case.unit.nodes) > 1:
        return
    x, y = case.graph.spec(case.last.inputs[0] or ""), case.spec
    table = case.graph.constants.get(case.last.inputs[1] or "")
    is_scaled = x.quantized and y.quantized and len(x.scale) == len(y.scale) == 1
    if not is_scaled or y.numpy_dtype.kind not in "iu" or table is None or table.ndim != 1:
        return
    for name, (gate_name, gate) in GATES.items():
        healthy = _table(case, lambda v, step, of=gate: v * of(v) / step)  # type: ignore[misc]
        if np.abs(healthy.astype(np.float64) - table.astype(np.float64)).max() <= OFF:
            for text, pieces, bits in _lowered(name, gate_name, gate, x.scale[0]):
                yield FaultVariant(f"{name} is computed in pieces: {text}", partial(_with, pieces=pieces), bits)
            return


def _lowered(
    name: str, gate_name: str, gate: Callable[[Array], Array], step_x: float
) -> Iterator[tuple[str, Pieces, float]]:
    """Yields ways to compute x * gate(x): in words, what computes the output, and the bits of their choice."""
    for how, rounded in ROUNDS.items():
        for levels in LEVELS:
            bits = 5.0 + (rounded is not np.rint) + 2 * (levels not in OF_BYTE)
            to_level = partial(_to_levels, levels=levels, rounded=rounded)
            text = f"x times {gate_name}, which is {how} to 1/{levels}"
            yield text, partial(_times, gate=gate, change=partial(to_level, low=0.0)), bits
            text = f"x/2 + x/2 times (2 {gate_name} - 1), which is {how} to 1/{levels}"
            halves = partial(_of_halves, gate=gate, to_level=partial(to_level, low=-1.0))
            yield text, halves, bits
            yield f"{text}; both terms are rounded to steps of the output", partial(halves, apart=np.rint), bits
        bits = 5.0 + (rounded is not np.rint)
        yield (
            f"x times {gate_name}, which is {how} to steps of the output",
            lambda x, step, r=rounded: x * r(gate(x) / step),  # type: ignore[misc]
            bits,
        )
        if name == "HardSwish":
            for part, size in {
                "6/255": 6 / 255,
                "6/256": 6 / 256,
                "6/127": 6 / 127,
                "steps of the input": step_x,
            }.items():
                change = partial(_to_multiples, size=size / 6, rounded=rounded)
                text = f"x times (x + 3, limited to 0..6, which is {how} to {part}) / 6"
                yield text, partial(_times, gate=gate, change=change), bits
            yield (
                f"x/6, which is {how} to steps of the output, times x + 3, limited to 0..6",
                lambda x, step, r=rounded: r(x / 6 / step) * np.clip(x + 3, 0, 6),  # type: ignore[misc]
                bits,
            )


def _times(x: Array, step: float, gate: Callable[[Array], Array], change: Callable[[Array], Array]) -> Array:
    return x * change(gate(x)) / step


def _to_multiples(values: Array, size: float, rounded: Callable[[Array], Array]) -> Array:
    return rounded(values / size) * size


def _to_levels(values: Array, low: float, levels: int, rounded: Callable[[Array], Array]) -> Array:
    """Returns values of low..1 in steps of 1/levels; of powers of two the largest number is one step below 1."""
    most = levels - 1 if levels & levels - 1 == 0 else levels
    return np.clip(rounded(values * levels), low * levels, most) / levels


def _of_halves(
    x: Array,
    step: float,
    gate: Callable[[Array], Array],
    to_level: Callable[[Array], Array],
    apart: Callable[[Array], Array] | None = None,
) -> Array:
    first, second = 0.5 * x / step, 0.5 * x * to_level(2 * gate(x) - 1) / step
    return first + second if apart is None else apart(first) + apart(second)


def _table(case: Case, pieces: Pieces) -> Array:
    """Returns the table of a function."""
    x, y = case.graph.spec(case.last.inputs[0] or ""), case.spec
    table = case.graph.constants[case.last.inputs[1] or ""]
    real = (np.arange(len(table), dtype=np.float64) + limits(x)[0] - x.zero_point[0]) * x.scale[0]
    values = np.rint(np.asarray(pieces(real, float(y.scale[0])))) + y.zero_point[0]
    return np.clip(values, *limits(y)).astype(table.dtype)


def _with(case: Case, pieces: Pieces) -> Array:
    return case.recompute(UnitChange(constants={case.last.inputs[1] or "": _table(case, pieces)}))
