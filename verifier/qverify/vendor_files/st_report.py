"""Parses *_validate_report.txt of ST's validate command: its facts on the arrays that it saved, and its own metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.norms import norm
from qverify.errors import BadFileError
from qverify.plural import count
from qverify.vendor_files.array_files import StoredArray
from qverify.vendor_files.untrusted_files import UntrustedFile
from qverify.vendor_files.vendor_dump import real_number, whole_number

Reals = npt.NDArray[np.float64]
METRICS = ("rmse", "mae", "l2r", "cos")
MAX_REPORT_BYTES = 1 << 26
MAX_SHOWN = 3  # contradicted metrics in a note
_DATE = re.compile(r"Created date\s*:\s*(\S.*?)\s*")
_ARRAY = re.compile(  # m_outputs_1, or I[1] for the values that were loaded for input 1
    r"(?:([mc])_(inputs|outputs)_(\d{1,6})|I\[(\d{1,6})\]): \(([\d, ]*)\)/(\w+), "
    r"min/max=\[([^\],]+), ([^\],]+)\], mean/std=\[([^\],]+), ([^\],]+)\](?:, (.+))?"
)
_CROSS = re.compile(r"X-cross #(\d{1,6})\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+\S+\s+\S+\s+\S+\s+(\S+)\s+'.*")
_FAILED = re.compile(r"not evaluated|\bE\d{3,5}\(\w*(?:Error|Exception)\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SavedArray:
    """The facts of the report on one array. line: number of the line. statistics: min, max, mean and standard
    deviation, printed with six decimals."""

    line: int
    shape: tuple[int, ...]
    dtype: str
    statistics: tuple[float, float, float, float]
    name: str


@dataclass(slots=True)
class ValidateReport:
    """The report. date: as printed, or "". arrays: by key, such as c_outputs_1. loaded: the values that were loaded for
    each input, by its number; their axes may be in another order than those of the arrays. cross: line number and printed metrics
    of each output of the C-model against the original model, by number of the output."""

    path: str
    date: str = ""
    arrays: dict[str, SavedArray] = field(default_factory=dict)
    loaded: dict[int, SavedArray] = field(default_factory=dict)
    cross: dict[int, tuple[int, dict[str, str]]] = field(default_factory=dict)


def read_report(file: UntrustedFile) -> ValidateReport:
    """Returns the report. Raises BadFileError if it contains an error or "not evaluated", or if it lists no array,
    since the arrays beside it are then of another run."""
    report = ValidateReport(file.path)
    for number, line in enumerate(file.whole(MAX_REPORT_BYTES).decode("utf-8", "replace").splitlines(), 1):
        text, where = line.strip(), f"{file.path}: line {number}"
        if _FAILED.search(text):
            raise BadFileError(f"{where}: {text[:80]!r}: arrays beside it are of another run; validate again")
        if (match := _DATE.fullmatch(text)) is not None:
            report.date = match[1][:40]
        elif (match := _ARRAY.fullmatch(text)) is not None:
            shape = tuple(whole_number(d, where) for d in match[5].replace(",", " ").split())
            low, high, mean, spread = (real_number(match[at].strip(), where) for at in (7, 8, 9, 10))
            saved = SavedArray(number, shape, match[6], (low, high, mean, spread), (match[11] or "").strip())
            if match[4] is not None:
                report.loaded[int(match[4])] = saved
            else:
                report.arrays[f"{match[1]}_{match[2]}_{int(match[3])}"] = saved
        elif (match := _CROSS.fullmatch(text)) is not None:
            report.cross[int(match[1])] = number, dict(zip(METRICS, (match[at] for at in (3, 4, 5, 6)), strict=True))
    if not report.arrays:
        raise BadFileError(
            f"{file.path}: lists no array that validate saved: arrays beside it are of another run; validate again"
        )
    return report


def check_array(report: ValidateReport, key: str, array: StoredArray) -> bool:
    """Returns True if the report states what is in the array, and False for an input of which it states nothing: it may
    list the outputs alone. An input that it does not list is checked by what was loaded for it, in any order of its
    axes, unless it has another type there. Raises BadFileError if shape, dtype or statistics of the array are not those
    in the report, or if the report does not list an output."""
    saved, any_order = report.arrays.get(key), False
    if saved is None:
        _, kind, number = key.split("_")
        if kind == "outputs":
            raise BadFileError(
                f"{array.where}: {report.path} does not list {key}: they are of two runs; validate again"
            )
        saved, any_order = report.loaded.get(int(number)), True
        if saved is None or saved.dtype != array.dtype:
            return False
    where = f"{array.where}: {report.path} line {saved.line}"
    shapes = [sorted(s) if any_order else list(s) for s in (saved.shape, array.shape)]
    if shapes[0] != shapes[1] or saved.dtype != array.dtype:
        raise BadFileError(
            f"{where} says {saved.dtype}{list(saved.shape)}, the array is {array.dtype}{list(array.shape)}: "
            "they are of two runs; validate again"
        )
    _check_statistics(saved, array, where)
    return True


def _check_statistics(saved: SavedArray, array: StoredArray, where: str) -> None:
    values = array.array().astype(np.float64)
    statistics = (values.min(), values.max(), values.mean(), values.std()) if values.size else (0.0, 0.0, 0.0, 0.0)
    for name, printed, value in zip(
        ("min", "max", "mean", "std"), saved.statistics, map(float, statistics), strict=True
    ):
        if not abs(printed - value) <= 1.5e-6 + 2e-5 * max(abs(value), abs(float(statistics[3]))):
            raise BadFileError(
                f"{where} says {name} {printed:g}, the array has {value:.6g}: they are of two runs; validate again"
            )


def check_metrics(report: ValidateReport, arrays: dict[str, StoredArray]) -> list[str]:
    """Recomputes the report's metrics of the C-model against the original model from the arrays of real values. Returns
    a note on the result."""
    checked, contradicted = 0, []
    for number, (line, printed) in report.cross.items():
        m, c = (arrays.get(f"{side}_outputs_{number}") for side in "mc")
        if m is None or c is None or not all(a.dtype.startswith("float") for a in (m, c)):
            continue
        measured = _measure(m.array().astype(np.float64).ravel(), c.array().astype(np.float64).ravel())
        for name, text in printed.items():
            checked += 1
            if measured is None or not _agrees(text, measured[name]):
                value = f"{measured[name]:.6g}" if measured is not None else "another number of elements"
                contradicted.append(f"line {line}: output {number}: {name} {text[:24]}, its arrays give {value}")
    if not checked:
        return ["stm32: the report has no metric of real values that the arrays could confirm"]
    if not contradicted:
        return [f"stm32: {count(checked, 'metric')} of the report recomputed from the arrays, all as printed"]
    more = f" (and {len(contradicted) - MAX_SHOWN} more)" if len(contradicted) > MAX_SHOWN else ""
    lines = "; ".join(contradicted[:MAX_SHOWN]) + more
    return [
        f"WARNING: stm32: the report is contradicted by the arrays in {len(contradicted)} of {checked} metrics: {lines}"
    ]


def _measure(m: Reals, c: Reals) -> dict[str, float] | None:
    """Returns the metrics of the C-model's values c against the original model's values m, or None if their numbers of
    elements differ."""
    if m.size != c.size or not m.size:
        return None
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        difference, length_m = m - c, norm(m)
        product_of_lengths = length_m * norm(c)
        return {
            "rmse": float(np.sqrt(np.mean(difference**2))),
            "mae": float(np.mean(np.abs(difference))),
            "l2r": norm(difference) / length_m if length_m else float("nan"),
            "cos": float((m * c).sum()) / product_of_lengths if product_of_lengths else float("nan"),
        }


def _agrees(printed: str, value: float) -> bool:
    """Returns True if the printed metric can be this value, or if it is "n.a."."""
    if printed == "n.a.":
        return True
    try:
        claimed = float(printed)
    except ValueError:
        return False
    last_digit = 10.0 ** -len(printed.partition(".")[2]) if "e" not in printed.lower() else abs(claimed) * 1e-3
    return bool(abs(claimed - value) <= 1.5 * last_digit + 0.02 * abs(value if abs(value) < 0.5 else 0.0))
