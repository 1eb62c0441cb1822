"""The chart of a job's or a node's history."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from qverify_farm.ui.history_chart import HEIGHT, LEFT, WIDTH, draw_results, draw_values


def row(verdict: str, firmware: str = "", **more: Any) -> dict[str, Any]:
    labels = {"firmware": firmware} if firmware else {}
    return {"verdict": verdict, "board": "desk", "job": "0" * 32, "labels": labels, **more}


def test_verdicts_are_drawn_in_their_rows_by_time() -> None:
    chart = draw_results([row("PASSED", "1.0"), row("FAILED", "1.1"), row("PASSED", "1.1")], "firmware")
    assert chart is not None
    first, second, third = chart.dots
    assert first.x < second.x < third.x and first.y == third.y < second.y
    assert [text for _, text in chart.names] == ["1.0", "1.1"] and second.text == "firmware 1.1: FAILED on desk"
    assert all(LEFT <= dot.x <= WIDTH and 0 <= dot.y <= HEIGHT for dot in chart.dots)


def test_values_of_a_node_are_those_of_the_pair_with_the_board() -> None:
    points = [
        row("FAILED", "1.0", pair="reference ~ simulator", metrics={"max_lsb": 9.0}),
        row("PASSED", "1.0", pair="reference ~ board", metrics={"max_lsb": 0.0}),
        row("FAILED", "1.1", pair="reference ~ board", metrics={"max_lsb": 3.0}),
        row("FAILED", "1.2", pair="reference ~ board", metrics={"max_lsb": None}),
    ]
    chart = draw_values(points, "firmware")
    assert chart is not None and len(chart.dots) == 2 and chart.ticks[-1][1] == "5"
    assert chart.dots[0].y > chart.dots[1].y and chart.line.startswith("M") and chart.line.count("L") == 1


def test_points_without_the_label_are_apart_and_not_joined() -> None:
    """1.0, then a run that nobody labelled, then 1.1: the line goes from 1.0 to 1.1 alone."""
    of_board = {"pair": "reference ~ board"}
    points = [
        row("PASSED", "1.0", **of_board, metrics={"max_lsb": 0.0}),
        row("FAILED", **of_board, metrics={"max_lsb": 9.0}),
        row("PASSED", "1.1", **of_board, metrics={"max_lsb": 1.0}),
        row("PASSED", **of_board, metrics={"max_lsb": 0.0}),
    ]
    chart = draw_values(points, "firmware")
    assert chart is not None and chart.border is not None
    placed, apart = [d for d in chart.dots if not d.is_apart], [d for d in chart.dots if d.is_apart]
    assert [dot.text for dot in placed] == ["firmware 1.0: 0 on desk", "firmware 1.1: 1 on desk"]
    assert [dot.text for dot in apart] == ["no firmware: 9 on desk", "no firmware: 0 on desk"]
    assert max(dot.x for dot in placed) < chart.border < min(dot.x for dot in apart) < apart[1].x <= WIDTH
    first, second = placed
    assert chart.line == f"M{first.x:.1f} {first.y:.1f} L{second.x:.1f} {second.y:.1f}"
    assert [text for _, text in chart.names] == ["1.0", "1.1", "no firmware"]
    assert "2 hollow dots" in chart.legend and "not joined" in chart.legend
    verdicts = draw_results(points, "firmware")
    assert verdicts is not None and [dot.is_apart for dot in verdicts.dots] == [False, False, True, True]


def test_each_board_has_a_line_of_its_own() -> None:
    points = [
        row("FAILED", firmware, pair="a ~ board", metrics={"max_lsb": value}) | {"board": board}
        for firmware in ("1.0", "1.1")
        for board, value in (("desk", 0.0), ("shelf", 9.0))
    ]
    chart = draw_values(points, "firmware")
    assert chart is not None
    (a, b, c, d), moves = chart.dots, chart.line.split("M")[1:]
    assert (
        [f"{a.x:.1f}" in moves[0], f"{c.x:.1f}" in moves[0]]
        == [True, True]
        == [f"{x:.1f}" in moves[1] for x in (b.x, d.x)]
    )
    assert a.y == c.y and b.y == d.y and len(moves) == 2


@pytest.mark.parametrize("label", ["", "toolchain"])
def test_without_a_label_points_are_joined_by_time_and_with_an_unknown_one_not_at_all(label: str) -> None:
    points = [row("PASSED", "1.0", pair="a ~ board", metrics={"max_lsb": float(n)}) for n in range(3)]
    chart = draw_values(points, label)
    assert chart is not None and len(chart.dots) == 3 and all(dot.is_apart == bool(label) for dot in chart.dots)
    assert chart.line.count("L") == (0 if label else 2) and bool(chart.line) == (not label)
    assert ("hollow" in chart.legend) == bool(label) and len({dot.x for dot in chart.dots}) == 3


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -1.0, True, "3"])
def test_values_that_are_not_numbers_are_not_drawn(value: object) -> None:
    assert draw_values([row("FAILED", pair="a ~ board", metrics={"max_lsb": value})], "firmware") is None


def test_there_is_no_chart_without_data() -> None:
    assert draw_results([], "") is None and draw_results([row("RUNNING")], "") is None


def test_labels_of_the_axis_do_not_touch() -> None:
    rows = [row("PASSED", f"2026.{number:02}-release") for number in range(40)]
    chart = draw_results(rows, "firmware")
    assert chart is not None and len(chart.names) > 3
    ends = [(x - 4 * len(text), x + 4 * len(text)) for x, text in chart.names]
    assert all(before[1] < after[0] for before, after in pairwise(ends))
