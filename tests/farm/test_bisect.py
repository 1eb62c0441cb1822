"""The search for the first bad version: correct for every position, with few runs; versions without a verdict are skipped and
reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.report.matrix.document import StoredRun
from qverify.report.matrix.grouping import build_matrix
from qverify_farm.cli.suite_bisect import _between_cells
from qverify_farm.suites.bisect import Bisection, bisect

VERSIONS = [f"1.{n}" for n in range(20)]


def search(first_bad: int, unclear: tuple[int, ...] = (), versions: list[str] = VERSIONS) -> Bisection:
    def judge(version: str) -> str:
        at = versions.index(version)
        return "INCONCLUSIVE" if at in unclear else "FAILED" if at >= first_bad else "PASSED"

    return bisect(versions, judge)


@pytest.mark.parametrize("first_bad", range(1, 20))
def test_the_first_bad_version_is_found_with_few_runs(first_bad: int) -> None:
    found = search(first_bad)
    assert found.is_found and (found.good, found.bad, found.between) == (f"1.{first_bad - 1}", f"1.{first_bad}", [])
    assert len(found.judged) <= 7 and found.sentence == f"the first bad version is {found.bad}; {found.good} is good"


def test_versions_without_a_verdict_are_skipped_and_reported() -> None:
    found = search(10, unclear=(9, 0, 19))
    assert (found.good, found.bad, found.between) == ("1.8", "1.10", ["1.9"])
    assert found.sentence == "the first bad version is 1.10 or one of 1.9, which gave no verdict; 1.8 is good"
    apart = search(5, unclear=(9, 14))
    assert (apart.good, apart.bad, apart.between) == ("1.4", "1.5", [])


@pytest.mark.parametrize(
    ("first_bad", "unclear", "words"),
    [
        (99, (), "not found: the newest version with a verdict, 1.19, PASSED"),
        (0, (), "not found: the oldest version with a verdict, 1.0, FAILED; add older ones"),
        (0, (0,), "not found: the oldest version with a verdict, 1.1, FAILED; add older ones; no verdict: 1.0"),
        (5, tuple(range(20)), "not found; no verdict: 1.19"),
    ],
)
def test_missing_good_or_bad_end_is_reported(first_bad: int, unclear: tuple[int, ...], words: str) -> None:
    found = search(first_bad, unclear)
    assert not found.is_found and found.sentence.startswith(words)


def test_a_list_in_the_wrong_order_is_reported() -> None:
    found = bisect(["2.0", "1.0"], {"2.0": "FAILED", "1.0": "PASSED"}.__getitem__)
    assert not found.is_found and "wanted the oldest version first" in found.sentence


def matrix_file(folder: Path, verdicts: list[str | None]) -> str:
    runs = [
        StoredRun(str(at), "", {"model": "net.onnx", "firmware": f"1.{at + 8}"}, {}, cast(Any, verdict))
        for at, verdict in enumerate(verdicts)
        if verdict is not None
    ]
    path = folder / "M.json"
    path.write_text(json.dumps(build_matrix(runs, ["model"], ["firmware"]).to_json()))
    return str(path)


def test_a_search_begins_with_a_cell_of_a_matrix(tmp_path: Path) -> None:
    """From the last column with another verdict; a column without a run is searched, too, if a list names it."""
    matrix = matrix_file(tmp_path, ["PASSED", "PASSED", None, "FAILED", "FAILED"])
    assert _between_cells(matrix, "net.onnx,1.12", []) == ["1.9", "1.11", "1.12"]
    assert _between_cells(matrix, "net.onnx, 1.11", []) == ["1.9", "1.11"]
    listed = ["1.7", "1.8", "1.9", "1.9-hotfix", "1.10", "1.11", "1.12"]
    assert _between_cells(matrix, "net.onnx,1.11", listed) == ["1.9", "1.9-hotfix", "1.10", "1.11"]


@pytest.mark.parametrize(
    ("cell", "listed", "said"),
    [
        ("other.onnx,1.11", [], "no row 'other.onnx'"),
        ("net.onnx,2.0", [], "no column '2.0'"),
        ("net.onnx", [], "no row"),
        ("net.onnx,1.9", [], "every earlier run of this row is PASSED"),
        ("net.onnx,1.11", ["1.9"], "1.11 of the matrix is not in it"),
        ("net.onnx,1.11", ["1.11", "1.9"], "wanted the oldest version first"),
    ],
)
def test_a_cell_that_is_none_is_one_line(cell: str, listed: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        _between_cells(matrix_file(tmp_path, ["PASSED", "PASSED", None, "FAILED"]), cell, listed)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"schema": "qverify.report/1"}', '{"schema": "qverify.report_matrix/1"}']
)
def test_what_is_no_matrix_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "M.json").write_text(text)
    with pytest.raises(UsageError, match="--from-matrix"):
        _between_cells(str(tmp_path / "M.json"), "a,b", [])


def test_versions_come_from_a_list_or_from_a_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--from-matrix", "M.json"], ["--cell", "a,b"]):
        assert main(["suite", "bisect", "s.toml", "--flash", "x {version}", *words]) == 2
        assert capsys.readouterr().err.count("\n") == 1
