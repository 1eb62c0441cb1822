"""The points of a node's history, read from reports."""

from __future__ import annotations

from typing import Any

import pytest
from qverify_farm.service.node_points import node_points
from qverify_farm.store.tables import JobRecord, SuiteRunRecord

UNITS = [{"node": "conv1", "outputs": ["c1"]}, {"node": "split", "outputs": ["s0", "s1"]}]
JOB, RUN = JobRecord(id="1" * 32, board="desk"), SuiteRunRecord(id="2" * 32, labels={"firmware": "1.2"})


def points(document: Any, node: str) -> list[tuple[str, str, dict[str, float | None]]]:
    return [(point.pair, point.verdict, point.metrics) for point in node_points(document, node, JOB, RUN)]


def report(**pair: Any) -> dict[str, Any]:
    return {"units": UNITS, "pairs": [{"a": "simulator", "b": "board", **pair}]}


def test_a_failing_row_gives_its_metrics() -> None:
    row = {"node": "conv1", "name": "c1", "verdict": "FAILED", "digests_equal": False, "max_lsb": 3, "sqnr_db": "inf"}
    assert points(report(tensors=[row]), "c1") == [
        ("simulator ~ board", "FAILED", {"max_lsb": 3.0, "sqnr_db": None}),
    ]


@pytest.mark.parametrize("node", ["conv1", "c1"])
def test_equal_bytes_give_errors_of_zero(node: str) -> None:
    zeros = {"max_lsb": 0.0, "max_abs": 0.0, "rmse": 0.0, "mismatched": 0.0}
    assert points(report(tensors=[], same_bytes={"c1": True}), node) == [("simulator ~ board", "PASSED", zeros)]
    row = {"node": "conv1", "name": "c1", "verdict": "PASSED", "digests_equal": True, "max_lsb": None, "cosine": None}
    assert points(report(tensors=[row]), node) == [("simulator ~ board", "PASSED", {"cosine": None, **zeros})]


def test_a_node_has_equal_bytes_only_if_all_its_outputs_have() -> None:
    assert len(points(report(same_bytes={"s0": True, "s1": True}), "split")) == 1
    assert points(report(same_bytes={"s0": True, "s1": False}), "split") == []
    assert points(report(same_bytes={"s0": True}), "split") == []
    assert len(points(report(same_bytes={"s0": True, "s1": False}), "s0")) == 1


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"pairs": 3},
        {"pairs": [None, 3, {}]},
        report(),
        report(same_bytes={"c2": True}),
        report(same_bytes=["c1"]),
        report(same_bytes={"c1": "yes"}),
        {"units": [{"node": "conv1", "outputs": 7}], "pairs": [{"same_bytes": {"c1": True}}]},
        {"units": 7, "pairs": [{"same_bytes": {"c1": True}, "tensors": {"c1": 1}}]},
    ],
)
def test_a_report_that_says_nothing_of_the_node_gives_no_point(document: Any) -> None:
    assert points(document, "conv1") == []


def test_numbers_beyond_float_are_dropped() -> None:
    row = {"node": "conv1", "verdict": "FAILED", "max_lsb": 10**400, "rmse": float("inf"), "cosine": "x"}
    assert points(report(tensors=[row]), "conv1") == [
        ("simulator ~ board", "FAILED", {"max_lsb": None, "rmse": None, "cosine": None})
    ]
