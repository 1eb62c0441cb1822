"""Tests of a gate's messages: the rule, the number of elements, and rules that were not asked for."""

from __future__ import annotations

import numpy as np
from qverify.compare.options import Options

from tests.plain.three_sides import side, two


def test_what_the_rule_that_was_not_asked_for_would_have_said():
    a = side("reference", y=[1.0, 2.0])
    (pair,) = two(a, side("board", y=[1.0, 2.1]), Options(atol=0.5)).pairs
    rule = "5 decimals, rule half: |a-b| <= 0.5e-5"
    assert pair.notes == [f"{rule}: not requested, would have FAILED (y: 1 element does not match to {rule})"]
    assert pair.verdict == "PASSED" and pair.tensors[0].failing == 1
    (pair,) = two(a, side("board", y=[1.0, 2.0]), Options(atol=0.5)).pairs
    assert pair.notes == [f"{rule}: not requested, would have PASSED"]
    assert two(a, side("board", y=[1.0, 2.0])).pairs[0].notes == []


def test_a_wrong_shape_would_have_failed_the_decimals_and_compares_no_element():
    a = side("reference", y=[1.0, 2.0], z=[1.0])
    (pair,) = two(a, side("board", y=[[1.0, 2.0]], z=[1.0]), Options(atol=0.5)).pairs
    wrong = "y: shape [2] in the reference, [1, 2] on the board"
    rule = "5 decimals, rule half: |a-b| <= 0.5e-5"
    assert pair.verdict == "FAILED" and pair.why == wrong
    assert pair.notes == [f"{rule}: not requested, would have FAILED ({wrong})"]
    assert (pair.coverage.compared, pair.coverage.elements) == (2, 1)


def test_values_that_are_not_finite_would_not_have_passed_the_decimals():
    nan = float("nan")
    rule = "5 decimals, rule half: |a-b| <= 0.5e-5"
    (pair,) = two(side("reference", y=[1.0, nan]), side("board", y=[1.0, nan]), Options(atol=0.5)).pairs
    assert pair.verdict == "INCONCLUSIVE"
    assert pair.notes[-1].startswith(f"{rule}: not requested, would have been INCONCLUSIVE (y: 1 element is NaN")
    (pair,) = two(side("reference", y=[1.0, 2.0]), side("board", y=[1.0, nan]), Options(atol=0.5)).pairs
    assert pair.verdict == "FAILED" and "would have FAILED (y: " in pair.notes[-1]


def test_why_a_tensor_fails_gate_by_gate():
    a, b = side("reference", y=[1.0, 2.0, 3.0]), side("board", y=[1.0, 2.1, np.nan])
    (pair,) = two(a, b, Options(atol=0.01, rtol=0.01, max_rmse=0.5, digits_given=True)).pairs
    rule = "5 decimals, rule half: |a-b| <= 0.5e-5"
    assert pair.why == (
        "y: 1 element is NaN or Inf on one side only, or not the same on both; "
        f"2 elements do not match to {rule}; 2 elements are beyond atol + rtol*|a|; rmse inf, wanted <= 0.5"
    )
    near = side("board", y=[1.0, 2.03, 3.03])
    for options, verdict in (
        ({"atol": 0.0101, "rtol": 0.01}, "PASSED"),
        ({"atol": 0.0299}, "FAILED"),
        ({"rtol": 0.0149}, "FAILED"),
        ({"rtol": 0.0151}, "PASSED"),
        ({"atol": 0.031}, "PASSED"),
    ):
        assert two(a, near, Options(**options)).verdict == verdict, options
    at_the_limit = side("board", y=[1.5, 2.0, 3.0])
    assert two(a, at_the_limit, Options(atol=0.5)).verdict == "PASSED"
    assert two(a, at_the_limit, Options(rtol=0.5)).verdict == "PASSED"
    (pair,) = two(side("reference", y=[3.0]), side("board", y=[6.0]), Options(min_cosine=1.0)).pairs
    assert pair.verdict == "FAILED" and "2 times as large (norms), which a cosine does not see" in pair.why


def test_the_boards_of_a_report_are_its_boards_alone():
    reference, board = side("reference", y=[1.0]), side("board", y=[1.0])
    reference.host, board.host = "build-host", "10.0.0.5"
    assert two(reference, board).boards == ["10.0.0.5"]


def test_several_tensors_that_fail_are_counted():
    (pair,) = two(side("reference", x=[1], y=[1], z=[1]), side("board", x=[2], y=[1], z=[2])).pairs
    assert pair.why.startswith("x: 1 element does not match") and pair.why.endswith(" (and 1 more tensor)")
    assert not pair.bit_equal and [r.bit_equal for r in pair.tensors] == [False, True, False]
