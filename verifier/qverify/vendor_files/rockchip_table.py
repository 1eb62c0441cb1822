"""Checks Rockchip's error_analysis.txt: recomputes the numbers of the vendor's table from the tensors.

There are two dialects. The newer one prints `cosine | euclidean distance` under simulator_error (entire, single) and
runtime_error (entire, single_sim); the older one prints cosines only, under quant_error (entire, per_layer) and
runtime_error (simu_err, golden_err). `single`, `single_sim` and `per_layer` come from runs whose tensors are not in the
folder. Distances are cut to six characters, not rounded: 7.006895 is printed as 7.0068."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.norms import norm
from qverify.errors import BadFileError
from qverify.plural import count
from qverify.vendor_files.untrusted_files import UntrustedFile
from qverify.vendor_files.vendor_dump import LayerFacts

Reals = npt.NDArray[np.float64]
SIDES_BY_COLUMN = {
    ("simulator_error", "entire"): ("golden", "simulator"),
    ("quant_error", "entire"): ("golden", "simulator"),
    ("runtime_error", "entire"): ("golden", "runtime"),
    ("runtime_error", "simu_err"): ("simulator", "runtime"),
    ("runtime_error", "golden_err"): ("golden", "runtime"),
}
_COLUMNS = ("entire", "single", "single_sim", "per_layer", "simu_err", "golden_err")
OWN_LOSS = ("single", "single_sim", "per_layer")  # columns of a layer that ran by itself, on the reference's inputs
SIMULATOR_GROUPS, RUNTIME_GROUP = ("simulator_error", "quant_error"), ("runtime_error",)
_NUMBER = re.compile(r"[+-]?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,3})?|nan|-?inf", re.IGNORECASE)
_LAYER = re.compile(r"(?:\[([^\]]*)\]\s+)?(\S.*)")
_PAIR = re.compile(r"(\S+)\s*\|\s*(\S+)")
MAX_TABLE_BYTES = 1 << 24
MAX_SHOWN = 3  # contradicted numbers in the report
DISTANCE_LENGTH = 6  # characters of a printed distance
SUM_TOLERANCE = 2e-5  # relative: the vendor's tool may have added in float32


@dataclass(frozen=True, slots=True)
class Claim:
    """One number of the table. sides: the two folders that it compares. metric: cosine or distance. printed: the
    number."""

    line: int
    layer: str
    column: str
    sides: tuple[str, str]
    metric: str
    printed: str


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table. op: the operator, "" if the dialect does not state it. values: group, name and printed values of
    each column; () of a layer that was fused with the next one."""

    line: int
    layer: str
    op: str
    values: tuple[tuple[str, str, tuple[str, ...]], ...]


def read_claims(rows: list[Row]) -> tuple[list[Claim], int]:
    """Returns the numbers that can be recomputed from the folder, and how many others there are."""
    claims, others = list[Claim](), 0
    for row in rows:
        for group, column, value in row.values:
            sides = SIDES_BY_COLUMN.get((group, column))
            if sides is None:
                others += len(value)
                continue
            for metric, printed in zip(("cosine", "distance"), value, strict=False):
                claims.append(Claim(row.line, row.layer, f"{group} {column}", sides, metric, printed))
    return claims, others


def read_rows(file: UntrustedFile) -> list[Row]:
    """Returns the rows, in the order of execution. Raises BadFileError for a table of another form."""
    rows: list[Row] = []
    columns: list[tuple[str, str]] = []
    groups, pairs = list[str](), False
    for number, line in enumerate(file.whole(MAX_TABLE_BYTES).decode("utf-8", "replace").splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#") or set(line.strip()) == {"-"}:
            continue
        if words[0] == "layer_name":
            groups = words[1:]
        elif groups and not columns and set(words) <= set(_COLUMNS):
            columns = _columns(groups, words, f"{file.path}: line {number}")
        elif columns and set(words) == {"cos", "euc"}:
            pairs = True
        elif not columns:
            raise BadFileError(f"{file.path}: line {number}: {line[:60]!r}; wanted the heads of its columns")
        else:
            layer, op, values = _row(line, pairs, len(columns), f"{file.path}: line {number}")
            cells = zip(columns, values, strict=False)
            rows.append(Row(number, layer, op, tuple((*column, tuple(value)) for column, value in cells)))
    if not columns:
        raise BadFileError(f"{file.path}: no row; wanted a table with layer_name")
    return rows


def facts_of_layers(rows: list[Row], side: str) -> dict[str, LayerFacts]:
    """Returns what the table states of each layer, by its name. side: the folder whose own loss is of interest."""
    group = RUNTIME_GROUP if side == "runtime" else SIMULATOR_GROUPS
    facts = {}
    for row in rows:
        own = {c: " | ".join(v) for g, c, v in row.values if g in group and c in OWN_LOSS}
        facts[row.layer] = LayerFacts(row.op, own)
    return facts


def _columns(groups: list[str], words: list[str], where: str) -> list[tuple[str, str]]:
    """Returns group and name of each column. Every group has two columns."""
    if len(words) != 2 * len(groups):
        raise BadFileError(
            f"{where}: {count(len(words), 'column')} under {' '.join(groups)[:60]!r}; wanted two of each"
        )
    return [(groups[at // 2], word) for at, word in enumerate(words)]


def _row(line: str, pairs: bool, columns: int, where: str) -> tuple[str, str, list[list[str]]]:
    """Returns a row's layer, its operator and the printed values of its columns: none (the layer was fused), those of the first
    group, or all."""
    match = _LAYER.fullmatch(line.strip())
    text = match[2] if match is not None else ""
    if pairs:
        first = _PAIR.search(text)
        start = len(text) if first is None else first.start()
        name, left = text[:start].strip(), _PAIR.sub("", text[start:]).strip()
        values = [list(cell) for cell in _PAIR.findall(text[start:])]
    else:  # a name may contain blanks: the numbers are the last words
        words = text.split()
        numbers = next((k for k, word in enumerate(words[:0:-1]) if _NUMBER.fullmatch(word) is None), len(words) - 1)
        values = [[word] for word in words[len(words) - min(numbers, columns) :]] if numbers > 0 else []
        name, left = text.rsplit(None, len(values))[0] if values else text, ""
    if not name or left or len(values) not in (0, 2, columns):
        raise BadFileError(f"{where}: {line[:60]!r}; wanted a layer and {columns} columns, or none of them")
    return name, (match[1] or "") if match is not None else "", values


def contradictions(claims: list[Claim], values: Callable[[str, str], Reals | None]) -> tuple[int, list[str]]:
    """Returns how many claims were recomputed, and a line for each claim that the tensors contradict. values: returns
    the elements of a layer on a side, or None if the folder does not have them."""
    checked, contradicted = 0, []
    measured: tuple[tuple[str, str, str], dict[str, float] | None] | None = None
    for claim in claims:
        key = (*claim.sides, claim.layer)
        if measured is None or measured[0] != key:
            a, b = (values(side, claim.layer) for side in claim.sides)
            measured = key, (_measure(a, b) if a is not None and b is not None and a.size == b.size else None)
        if measured[1] is None or (claim.metric == "cosine" and "cosine" not in measured[1]):
            continue
        checked += 1
        if not _agrees(claim.printed, measured[1][claim.metric], claim.metric):
            contradicted.append(
                f"line {claim.line}: {claim.layer}: {claim.column} {claim.metric} {claim.printed[:24]}, "
                f"its tensors give {measured[1][claim.metric]:.6g}"
            )
    return checked, contradicted


def _measure(a: Reals, b: Reals) -> dict[str, float]:
    """Returns the cosine (absent if a side has zeros only) and the euclidean distance."""
    with np.errstate(invalid="ignore", over="ignore"):
        metrics = {"distance": norm(a - b)}
        length = norm(a) * norm(b)
        if length != 0:
            metrics["cosine"] = float((a * b).sum()) / length
    return metrics


def _agrees(printed: str, value: float, metric: str) -> bool:
    """Returns True if the printed number can be this value, rounded or cut. A text that is not a number cannot
    contradict a small distance: six characters cut 1.2345e-05 to 1.2345."""
    if _NUMBER.fullmatch(printed) is None:
        return metric == "distance" and printed[-1:] in "eE-" and 0 < value < 1e-3
    claimed = float(printed)
    if not (np.isfinite(claimed) and np.isfinite(value)):
        return bool(np.isnan(claimed) and np.isnan(value)) or claimed == value
    last_digit = 10.0 ** -len(printed.partition(".")[2]) if "e" not in printed.lower() else abs(claimed) * 1e-3
    if abs(claimed - value) <= 1.01 * last_digit + SUM_TOLERANCE * abs(value):
        return True
    if metric == "distance" and "." not in printed and len(printed) >= DISTANCE_LENGTH:
        return str(int(value)).startswith(printed[: DISTANCE_LENGTH - 1])
    return (
        metric == "distance"
        and 0 < value < 1e-4
        and len(printed) >= DISTANCE_LENGTH
        and f"{value:.12e}".startswith(printed[:5])
    )


def describe(claims: int, checked: int, others: int, contradicted: list[str]) -> list[str]:
    """Returns the notes for the report. others: values that cannot be recomputed. wrong: lines on contradicted
    values."""
    name = "error_analysis.txt"
    if not checked:
        return [f"rockchip: {name}: none of its {count(claims + others, 'value')} could be recomputed from this folder"]
    not_recomputed = claims - checked + others
    suffix = f"; {not_recomputed} others are of runs or layers that are not in the folder" if not_recomputed else ""
    if not contradicted:
        return [f"rockchip: {name}: {count(checked, 'value')} recomputed from the tensors, all as printed{suffix}"]
    more = f" (and {len(contradicted) - MAX_SHOWN} more)" if len(contradicted) > MAX_SHOWN else ""
    return [
        f"WARNING: rockchip: {name} is contradicted by the tensors in {len(contradicted)} of {count(checked, 'value')}{suffix}: "
        + "; ".join(contradicted[:MAX_SHOWN])
        + more
    ]
