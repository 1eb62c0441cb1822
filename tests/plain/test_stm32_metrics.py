"""The metrics that ST's validate printed are computed again from the arrays, and what contradicts them is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from qverify.errors import BadFileError
from qverify.vendor_files.array_files import StoredArray, npy
from qverify.vendor_files.st_report import ValidateReport, check_array, check_metrics, read_report
from qverify.vendor_files.untrusted_files import UntrustedFile

M = np.float32([3, 0, 4])
C = np.float32([3, 1, 4])
RIGHT = {"rmse": "0.577350", "mae": "0.333333", "l2r": "0.200000", "cos": "0.980581"}


def stored(folder: Path, name: str, values: np.ndarray) -> StoredArray:
    np.save(folder / f"{name}.npy", values)
    return npy(UntrustedFile(str(folder / f"{name}.npy")), name)


def notes(folder: Path, printed: dict[str, str], m: np.ndarray = M, c: np.ndarray = C, number: int = 1) -> str:
    arrays = {f"{side}_outputs_1": stored(folder, side, values) for side, values in (("m", m), ("c", c))}
    (note,) = check_metrics(ValidateReport("report", cross={number: (9, printed)}), arrays)
    return note


def test_metrics_by_hand(tmp_path: Path) -> None:
    assert notes(tmp_path, RIGHT) == "stm32: 4 metrics of the report recomputed from the arrays, all as printed"
    assert "all as printed" in notes(tmp_path, {**RIGHT, "rmse": "5.773e-01", "cos": "n.a."})


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("rmse", "0.577", ""), ("rmse", "0.600000", "0.57735"), ("mae", "0", ""), ("l2r", "0.3", ""), ("l2r", "0.400000", "0.2"),
     ("cos", "1.000000", "0.980581"), ("cos", "one", "0.980581"), ("mae", "6.0e-01", "0.333333")],
)  # fmt: skip
def test_a_printed_number_is_as_exact_as_its_digits(name: str, text: str, value: str, tmp_path: Path) -> None:
    said = notes(tmp_path, {**RIGHT, name: text})
    if value:
        assert said == (
            "WARNING: stm32: the report is contradicted by the arrays in 1 of 4 metrics: "
            f"line 9: output 1: {name} {text}, its arrays give {value}"
        )
    else:
        assert "all as printed" in said


def test_more_than_three_contradictions_are_counted(tmp_path: Path) -> None:
    said = notes(tmp_path, dict.fromkeys(RIGHT, "7.0"))
    assert "in 4 of 4 metrics" in said and said.endswith("(and 1 more)") and said.count("line 9") == 3


def test_arrays_that_cannot_be_measured(tmp_path: Path) -> None:
    assert "rmse 0.577350, its arrays give another number of elements" in notes(tmp_path, RIGHT, c=np.float32([3, 1]))
    none = "stm32: the report has no metric of real values that the arrays could confirm"
    assert notes(tmp_path, RIGHT, c=np.int8([3, 1, 4])) == none  # stored integers are no real values
    assert notes(tmp_path, RIGHT, number=2) == none
    zeros = np.zeros(3, np.float32)
    assert "l2r 0.200000, its arrays give nan" in notes(tmp_path, RIGHT, m=zeros)


def test_an_array_that_the_report_does_not_list(tmp_path: Path) -> None:
    (tmp_path / "report.txt").write_text(
        " m_outputs_1: (3,)/float32, min/max=[0, 4], mean/std=[2.333333, 1.699673], y\n"
    )
    report = read_report(UntrustedFile(str(tmp_path / "report.txt")))
    check_array(report, "m_outputs_1", stored(tmp_path, "m", M))
    with pytest.raises(BadFileError, match="does not list c_outputs_1: they are of two runs; validate again"):
        check_array(report, "c_outputs_1", stored(tmp_path, "c", C))
    with pytest.raises(BadFileError, match="line 1 says min 0, the array has 1: they are of two runs"):
        check_array(report, "m_outputs_1", stored(tmp_path, "c", C))
