"""A board that computes x times a gate in pieces, with a rounding between them."""

from __future__ import annotations

import numpy as np
import pytest
from qverify.triage.plain_faults import function_in_pieces

from tests.ops.qdq import Qdq
from tests.plain.faulty_runners import Change
from tests.plain.mechanisms import check_named, check_silent, compute, noise

F = np.float32


def function(kind: str, high: float = 4.0, opset: int = 20) -> Qdq:
    m = Qdq("uint8", seed=4, opset=opset)
    m.output(m.quantize(m.op(kind, [m.input((1, 8, 9, 7), -4.0, high)], "y")))
    return m


def rounded(gate: list[tuple[object, ...]], levels: int, most: int) -> Change:
    """Multiplies x by a gate (which ends in the tensor `gate`) in steps of 1/levels."""
    steps: list[tuple[object, ...]] = [
        *gate,
        ("Mul", "gate", F(levels), "many"),
        ("Round", "many", "whole"),
        ("Min", "whole", F(most), "limited"),
        ("Div", "limited", F(levels), "narrow"),
        ("Mul", "in0_dq", "narrow", "y"),
    ]
    return compute(*steps)


HARD: list[tuple[object, ...]] = [
    ("Div", "in0_dq", F(6), "sixth"),
    ("Add", "sixth", F(0.5), "shifted"),
    ("Clip", "shifted", F(0), F(1), "gate"),
]
ERF: list[tuple[object, ...]] = [
    ("Mul", "in0_dq", F(0.5**0.5), "scaled"),
    ("Erf", "scaled", "erf"),
    ("Add", "erf", F(1), "plus"),
    ("Mul", "plus", F(0.5), "gate"),
]
FAULTS = {
    "HardSigmoid in 1/127": (
        function("HardSwish"),
        rounded(HARD, 127, 127),
        "HardSwish is computed in pieces: x times HardSigmoid, which is rounded to 1/127",
    ),
    "HardSigmoid in 1/16": (
        function("HardSwish"),
        rounded(HARD, 16, 15),
        "HardSwish is computed in pieces: x times HardSigmoid, which is rounded to 1/16",
    ),
    "erf in 1/128": (
        function("Gelu"),
        rounded(ERF, 128, 127),
        r"Gelu is computed in pieces: x times \(1 \+ erf.*, which is rounded to 1/128",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_pieces_with_a_rounding_are_named(name: str) -> None:
    check_named(*FAULTS[name])


def test_terms_that_are_rounded_apart_are_named() -> None:
    m = function("HardSwish")
    step = m.constants["y_scale"]
    change = compute(
        ("Div", "in0_dq", F(3), "third"),
        ("Clip", "third", F(-1), F(1), "factor"),
        ("Mul", "factor", F(127), "many"),
        ("Round", "many", "whole"),
        ("Div", "whole", F(127), "narrow"),
        ("Mul", "in0_dq", F(0.5) / step, "half"),
        ("Round", "half", "first"),
        ("Mul", "half", "narrow", "product"),
        ("Round", "product", "second"),
        ("Add", "first", "second", "total"),
        ("Mul", "total", step, "y"),
    )
    check_named(m, change, r"x/2 \+ x/2 times \(2 HardSigmoid - 1\), which is rounded to 1/127; both terms are rounded")


def test_other_faults_have_no_pieces() -> None:
    other: Change = compute(
        ("Mul", "in0_dq", F(0.2), "scaled"),
        ("Add", "scaled", F(0.5), "shifted"),
        ("Clip", "shifted", F(0), F(1), "gate"),
        ("Mul", "in0_dq", "gate", "y"),
    )
    check_silent(function_in_pieces, function("HardSwish"), {"noise": noise(5), "another slope": other})
