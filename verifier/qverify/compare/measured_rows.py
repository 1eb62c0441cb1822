"""Keeps what was measured of two tensors, for another pair of the comparison that has the very same arrays: of three sides, two
often have the same bytes, which are then stored as one array."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qverify.compare.gate import Gate
from qverify.compare.paired_values import PairedValues
from qverify.report.document import Metric, TensorRow
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec


@dataclass(frozen=True, slots=True)
class Measured:
    """The row of a tensor as it was measured, and what Judged says of it besides (decimals_only, untried, not_finite). first: the
    row of the pair that measured it, which may be filled later."""

    row: TensorRow
    decimals_only: bool
    untried: str | None
    not_finite: tuple[int, int] | None
    first: TensorRow


Question = tuple[Array, Array, TensorSpec, TensorSpec, bool | None, Gate]


class MeasuredRows:
    """The rows of one comparison, by tensor: those of the last pair that measured it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Question, Measured]] = {}

    def find(self, name: str, values: PairedValues, digests_equal: bool | None, gate: Gate) -> Measured | None:
        """Returns what was kept of a tensor of these arrays under this gate, with a row of its own; None if nothing was."""
        asked, found = self._kept.get(name, (None, None))
        if asked is None or found is None or asked[0] is not values.a or asked[1] is not values.b:
            return None
        same = asked[2:] == (values.spec_a, values.spec_b, digests_equal, gate)
        return replace(found, row=_copy(found.row)) if same else None

    def keep(self, name: str, values: PairedValues, digests_equal: bool | None, gate: Gate, found: Measured) -> None:
        """Keeps what was measured."""
        question = values.a, values.b, values.spec_a, values.spec_b, digests_equal, gate
        self._kept[name] = question, replace(found, row=_copy(found.row))


def _copy(row: TensorRow) -> TensorRow:
    return replace(row, metrics=_copy_metrics(row))


def _copy_metrics(row: TensorRow) -> dict[str, Metric]:
    return {n: dict(m) if isinstance(m, dict) else m for n, m in row.metrics.items()}


def copy_measures(first: TensorRow, row: TensorRow) -> None:
    """Gives a row the metrics and channels of another one of the same arrays."""
    row.metrics, row.channels = _copy_metrics(first), first.channels
