"""The chart of a job's or a node's history."""

from __future__ import annotations

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


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -1.0, True, "3"])
def test_values_that_are_not_numbers_are_not_drawn(value: object) -> None:
    assert draw_values([row("FAILED", pair="a ~ board", metrics={"max_lsb": value})], "firmware") is None


def test_there_is_no_chart_without_data() -> None:
    assert draw_results([], "") is None and draw_results([row("RUNNING")], "") is None
