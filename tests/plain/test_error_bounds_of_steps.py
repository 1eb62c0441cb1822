"""The bounds of one step of lstm, gru and rnn are those of NUMERICS.md section 4, worked out here number by number from a y that
is any: for a kernel in float32, and for qverify's own sides, whose sums are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from qverify.arithmetic.recurrences import RECURRENT, quantize_by_range
from qverify.compare.error_bounds import recurrences
from qverify.compare.error_bounds.bounded_values import Real, bound_exactly
from qverify.model_bin.graph import Graph, Node
from qverify.tensors.spec import TensorSpec

from tests.plain.error_pages import FLUSHED, U, g, word

Array = np.ndarray[Any, Any]
Bounded = tuple[float, float]  # value, error
D = 2.0**-52  # of each float64 addition of qverify's own sums, twice
STEPS, INPUTS, HIDDEN = 3, 2, 2
COUNTS = {"lstm": 4, "gru": 3, "rnn": 1}
# the function of a gate, and the roundoffs of a float32 library for x and y
GATES: dict[str, tuple[Callable[[float], float], Callable[[float, float], float]]] = {
    "sigmoid": (lambda x: 1 / (1 + math.exp(-x)), lambda x, y: 6.0),
    "tanh": (math.tanh, lambda x, y: 10 * abs(y)),
    "tanh_by_sigmoid": (math.tanh, lambda x, y: 12 + abs(y)),  # of onnxruntime's RNN
    "affine": (lambda x: 0.75 * x + 0.25, lambda x, y: 2 * abs(0.75 * x)),
    "scaled_tanh": (lambda x: 0.75 * math.tanh(0.25 * x), lambda x, y: 12 * abs(y) + 0.75),
    "softsign": (lambda x: x / (1 + abs(x)), lambda x, y: 5 * abs(y)),
}
ALPHA, BETA = 0.75, 0.25


@dataclass(frozen=True)
class Kernel:
    """How a kernel computes with values and their errors. own: with exact sums of products."""

    own: bool
    clip: float = 0.0

    def sum(self, count: int, terms: list[float], rounded: float, moved: float = 0.0) -> Bounded:
        value, size = math.fsum(terms), math.fsum(map(abs, terms))
        if self.own:
            return value, moved + U * rounded + count * D * size + FLUSHED
        return value, moved + g(count + 6) * (size + moved) + (count + 2) * FLUSHED

    def product(self, a: Bounded, b: Bounded) -> Bounded:
        value = a[0] * b[0]
        error = abs(a[0]) * b[1] + abs(b[0]) * a[1] + a[1] * b[1]
        return value, error + (D if self.own else U) * abs(value) + FLUSHED

    def gate(self, name: str, x: Bounded, clipped: bool = True) -> Bounded:
        of, share = GATES[name]
        at = min(max(x[0], -self.clip), self.clip) if self.clip and clipped else x[0]
        y = of(at)
        moved = max(abs(of(at + x[1]) - y), abs(of(at - x[1]) - y))
        if self.own:
            inside = 1 + abs(at if name == "affine" else y)
            return stored((y, moved + D * (1 + ALPHA + BETA) * inside))
        return stored((y, moved + U * (share(at, y) + abs(y) + 10 * moved) + FLUSHED))


def plus(a: Bounded, b: Bounded) -> Bounded:
    return a[0] + b[0], a[1] + b[1]


def stored(x: Bounded) -> Bounded:
    return x[0], x[1] + U * (abs(x[0]) + x[1]) + FLUSHED


def draw(op: str, directions: int, rows: int = 1, **given: Any) -> dict[str, Array]:
    """Operands and a recorded y, drawn at random."""
    rng, count = np.random.default_rng(5), COUNTS[op]
    shapes = {
        "x": (STEPS, rows, INPUTS),
        "w": (directions, count * HIDDEN, INPUTS),
        "r": (directions, count * HIDDEN, HIDDEN),
        "b": (directions, 2 * count * HIDDEN),
        "h": (directions, rows, HIDDEN),
        "c": (directions, rows, HIDDEN),
        "p": (directions, 3 * HIDDEN),
        "y": (STEPS, directions, rows, HIDDEN),
    }
    return {n: rng.normal(0, 0.8, s).astype(np.float32).astype(np.float64) for n, s in shapes.items()} | given


def bounded(
    op: str, of: dict[str, Array], names: tuple[str, ...], direction: int = 0, clip: float = 0.0, flag: int = 0
) -> list[Any]:
    """The outputs that the page of the op gives for these operands."""
    inputs = ("x", "w", "r", "b", "lengths", "h", "c", "p")[: 8 if op == "lstm" else 6]
    outputs = ("y", "last_h", "last_c")[: 3 if op == "lstm" else 2]
    functions = names * of["w"].shape[0]
    words = (direction, word(clip), *([] if op == "rnn" else [flag]), *map(RECURRENT.index, functions))
    words += (word(ALPHA),) * len(functions) + (word(BETA),) * len(functions)
    node = Node("y", op, tuple(n if n in of else None for n in inputs), outputs, words)
    given = [bound_exactly(of[n]) if n in of else None for n in inputs]
    graph = Graph([node], {"y": TensorSpec("y", "float32", of["y"].shape)}, {}, (), outputs)
    with np.errstate(all="ignore"):
        return list(getattr(recurrences, op)(node, given, graph, {"y": of["y"].astype(np.float32)}))


def before(of: dict[str, Array], d: int, t: int, backward: bool) -> list[float]:
    """The h before a step: that of the step before, or the first."""
    at = t + 1 if backward else t - 1
    return list(map(float, of["y"][at, d, 0] if 0 <= at < STEPS else of["h"][d, 0]))


def terms_of(of: dict[str, Array], d: int, t: int, row: int) -> tuple[list[float], float]:
    """The products of x of one gate's sum, and its bias beside w."""
    return [float(a * b) for a, b in zip(of["x"][t, 0], of["w"][d, row], strict=True)], float(of["b"][d, row])


def argument(kernel: Kernel, of: dict[str, Array], d: int, t: int, row: int, h: list[float]) -> Bounded:
    """One sum of x, h and both biases."""
    (of_x, bx), bh = terms_of(of, d, t, row), float(of["b"][d, of["b"].shape[1] // 2 + row])
    of_h = [float(a * b) for a, b in zip(h, of["r"][d, row], strict=True)]
    rounded = abs(bx + bh) + abs(sum(of_x) + bx + bh) + abs(sum(of_x) + bx + bh + sum(of_h))
    return kernel.sum(INPUTS + HIDDEN + 2, [*of_x, bx, *of_h, bh], rounded)


def check(found: Real, value: Array, errors: tuple[Array, Array]) -> None:
    assert found.value == pytest.approx(value, rel=1e-11) and found.lost is None and found.ours is not None
    assert found.error.ravel().tolist() == pytest.approx(errors[0].ravel().tolist(), rel=1e-8, abs=0)
    assert found.ours.ravel().tolist() == pytest.approx(errors[1].ravel().tolist(), rel=1e-8, abs=0)


DIRECTIONS = [0, 1, 2]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", ["tanh", "affine", "scaled_tanh", "softsign", "sigmoid"])
@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_steps_of_rnn(direction: int, name: str, clip: float) -> None:
    of = draw("rnn", 1 + direction // 2)
    y, last = bounded("rnn", of, (name,), direction, clip)
    value, errors = np.zeros_like(of["y"]), (np.zeros_like(of["y"]), np.zeros_like(of["y"]))
    for d in range(of["y"].shape[1]):
        for t in range(STEPS):
            h = before(of, d, t, direction == 1 or d == 1)
            for row in range(HIDDEN):
                for own in (False, True):
                    kernel = Kernel(own, clip)
                    value[t, d, 0, row], errors[own][t, d, 0, row] = kernel.gate(
                        "tanh_by_sigmoid" if name == "tanh" and not own else name, argument(kernel, of, d, t, row, h)
                    )
    check(y, value, errors)
    ends = [of["y"][0 if direction == 1 or d == 1 else -1, d] for d in range(of["y"].shape[1])]
    check(last, np.array(ends), (np.zeros_like(of["h"]),) * 2)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("flag", [0, 1])
def test_steps_of_gru(direction: int, flag: int) -> None:
    of = draw("gru", 1 + direction // 2)
    y, _ = bounded("gru", of, ("sigmoid", "tanh"), direction, flag=flag)
    value, errors = np.zeros_like(of["y"]), (np.zeros_like(of["y"]), np.zeros_like(of["y"]))
    for d, t, own in [(d, t, own) for d in range(of["y"].shape[1]) for t in range(STEPS) for own in (False, True)]:
        kernel, h = Kernel(own), before(of, d, t, direction == 1 or d == 1)
        gates = [kernel.gate("sigmoid", argument(kernel, of, d, t, k, h)) for k in range(2 * HIDDEN)]
        for unit in range(HIDDEN):
            row, z = 2 * HIDDEN + unit, gates[unit]
            n = candidate(kernel, of, d, t, row, h, gates[HIDDEN:], bool(flag))
            new, old = kernel.gate("tanh", n), h[unit]
            error = abs(new[0] - old) * z[1] + (abs(1 - z[0]) + z[1]) * new[1]
            size = abs(new[0]) * (1 + abs(z[0])) + abs(z[0] * old) + abs(old)
            state = (1 - z[0]) * new[0] + z[0] * old, error + (D if own else 4 * U) * size
            value[t, d, 0, unit], errors[own][t, d, 0, unit] = stored(state)
    check(y, value, errors)


def candidate(
    kernel: Kernel, of: dict[str, Array], d: int, t: int, row: int, h: list[float], r: list[Bounded], after: bool
) -> Bounded:
    """The argument of a gru's last gate. after: r multiplies the sum of h, else h itself."""
    (of_x, bx), bh, weights = terms_of(of, d, t, row), float(of["b"][d, 3 * HIDDEN + row]), of["r"][d, row]
    if after:
        inner = [*(float(a * b) for a, b in zip(h, weights, strict=True)), bh]
        sum_x = kernel.sum(INPUTS + 1, [*of_x, bx], abs(sum(of_x) + bx))
        own = r[row - 2 * HIDDEN]
        return stored(plus(sum_x, kernel.product(own, kernel.sum(HIDDEN + 1, inner, abs(sum(inner))))))
    kept = [stored(kernel.product(a, (b, 0.0))) for a, b in zip(r, h, strict=True)]
    of_h = [float(a[0] * b) for a, b in zip(kept, weights, strict=True)]
    moved = sum(float(a[1] * abs(b)) for a, b in zip(kept, weights, strict=True))
    known = sum(of_x) + bx + bh
    rounded = abs(bx + bh) + abs(known) + abs(known + sum(of_h)) + moved
    return kernel.sum(INPUTS + HIDDEN + 2, [*of_x, bx, *of_h, bh], rounded, moved)


Cell = tuple[list[Bounded], list[Bounded]]


def lstm_step(kernel: Kernel, arguments: list[Bounded], p: Array, coupled: bool, c: list[Bounded]) -> Cell:
    """The new h and c of each unit."""
    hs, cs = [], []
    for k in range(HIDDEN):
        i, o, f, new = (arguments[gate * HIDDEN + k] for gate in range(4))
        of_i, of_o, of_f = ((float(p[gate * HIDDEN + k]), 0.0) for gate in range(3))

        def peep(x: Bounded, weight: Bounded, state: Bounded) -> Bounded:
            return stored(plus(x, kernel.product(weight, state))) if p.any() else x

        i = kernel.gate("sigmoid", peep(i, of_i, c[k]))
        f = stored((1 - i[0], i[1])) if coupled else kernel.gate("sigmoid", peep(f, of_f, c[k]))
        state = stored(plus(kernel.product(f, c[k]), kernel.product(i, kernel.gate("tanh", new))))
        o = kernel.gate("sigmoid", peep(o, of_o, state))
        hs.append(stored(kernel.product(o, kernel.gate("scaled_tanh", state, clipped=False))))
        cs.append(state)
    return hs, cs


def check_lstm(
    of: dict[str, Array],
    found: list[Any],
    arguments: Callable[[Kernel, int, int, list[float]], list[Bounded]],
    direction: int,
    clip: float,
    flag: int,
) -> None:
    value, errors = np.zeros_like(of["y"]), (np.zeros_like(of["y"]), np.zeros_like(of["y"]))
    last, last_errors = np.zeros_like(of["c"]), (np.zeros_like(of["c"]), np.zeros_like(of["c"]))
    for d, own in [(d, own) for d in range(of["y"].shape[1]) for own in (False, True)]:
        kernel, backward = Kernel(own, clip), direction == 1 or d == 1
        c = [(float(v), 0.0) for v in of["c"][d, 0]]
        for t in range(STEPS)[:: -1 if backward else 1]:
            h, c = lstm_step(kernel, arguments(kernel, d, t, before(of, d, t, backward)), of["p"][d], bool(flag), c)
            value[t, d, 0], errors[own][t, d, 0] = zip(*h, strict=True)
        last[d, 0], last_errors[own][d, 0] = zip(*c, strict=True)
    check(found[0], value, errors)
    check(found[2], last, last_errors)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("flag", "clip", "peepholes"), [(0, 0.0, True), (1, 0.5, True), (0, 0.0, False)])
def test_steps_of_lstm(direction: int, flag: int, clip: float, peepholes: bool) -> None:
    of = draw("lstm", 1 + direction // 2)
    of["p"] = of["p"] * peepholes
    found = bounded("lstm", of, ("sigmoid", "tanh", "scaled_tanh"), direction, clip, flag)

    def arguments(kernel: Kernel, d: int, t: int, h: list[float]) -> list[Bounded]:
        return [argument(kernel, of, d, t, row, h) for row in range(4 * HIDDEN)]

    check_lstm(of, found, arguments, direction, clip, flag)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_steps_of_lstm_integer(direction: int) -> None:
    """x is quantized as a whole, h of each step by itself, alike on every side; six float32 steps are left."""
    of, rng = draw("lstm", 1 + direction // 2), np.random.default_rng(9)
    count, directions = 4 * HIDDEN, 1 + direction // 2
    weights = [rng.integers(-128, 128, (directions, depth, count)).astype(np.int8) for depth in (INPUTS, HIDDEN)]
    scales = [rng.uniform(0.001, 0.01, (directions, count)).astype(np.float32) for _ in range(2)]
    zeros = [np.full(directions, 3, np.int8), None]
    given = [of["x"], *weights, of["b"], None, of["h"], of["c"], of["p"], scales[0], zeros[0], scales[1], zeros[1]]
    words = (direction, word(0.0), 0, *map(RECURRENT.index, ("sigmoid", "tanh", "scaled_tanh") * directions))
    words += (word(ALPHA),) * 3 * directions + (word(BETA),) * 3 * directions
    outputs = ("y", "last_h", "last_c")
    node = Node("y", "lstm_integer", tuple("xwrbnhcpstuv"), outputs, words)
    inputs = [None if v is None else bound_exactly(v) for v in given]
    with np.errstate(all="ignore"):
        found = recurrences.lstm_integer(
            node, inputs, Graph([], {}, {}, (), outputs), {"y": of["y"].astype(np.float32)}
        )

    def arguments(kernel: Kernel, d: int, t: int, h: list[float]) -> list[Bounded]:
        x, x_scale = quantize_by_range(of["x"])
        of_h, h_scale = quantize_by_range(np.array([h]))
        made = []
        for row in range(count):
            u = float(x[t, 0] @ (weights[0][d, :, row].astype(float) - 3)) * float(x_scale) * float(scales[0][d, row])
            v = float(of_h[0] @ weights[1][d, :, row].astype(float)) * float(h_scale) * float(scales[1][d, row])
            biases = [float(of["b"][d, row]), float(of["b"][d, count + row])]
            made.append((u + v + sum(biases), g(8) * sum(map(abs, [u, v, *biases])) + 8 * FLUSHED))
        return made

    check_lstm(of, found, arguments, direction, 0.0, 0)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("op", "names"), [("lstm", ("sigmoid", "tanh", "tanh")), ("gru", ("sigmoid", "tanh")), ("rnn", ("tanh",))]
)
def test_every_row_is_bounded_by_itself_up_to_its_end(op: str, names: tuple[str, ...], direction: int) -> None:
    lengths = np.array([2, 0, 3], np.int32)
    of = draw(op, 1 + direction // 2, rows=3)
    found = bounded(op, of | {"lengths": lengths}, names, direction)
    for row, length in enumerate(lengths):
        alone = {n: v[:length, :, row : row + 1] if n == "y" else v for n, v in of.items()}
        alone |= {n: of[n][:, row : row + 1] for n in "hc"} | {"x": of["x"][:length, row : row + 1]}
        own = bounded(op, alone, names, direction) if length else []
        for at, whole in enumerate(found):
            for part in ("value", "error", "ours"):
                made = getattr(whole, part)[..., row, :]
                wanted = getattr(own[at], part)[..., 0, :] if length else np.zeros((0, *made.shape[-2:]))
                if at == 0:
                    assert made[:length] == pytest.approx(wanted, rel=1e-12) and not made[length:].any()
                else:
                    assert made == pytest.approx(wanted, rel=1e-12) if length else not made.any()
