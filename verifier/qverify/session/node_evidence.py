"""The tensors of one run from which blamed nodes are explained, and the case that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit
from qverify.report.document import Forced, Pair
from qverify.session.run_evidence import Pull, board_values
from qverify.tensors.codes import restore_codes
from qverify.tensors.find import Find, find_nothing
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:  # only a blamed node needs the rest of triage
    from qverify.triage.case import Case
    from qverify.triage.experiments import ExperimentBoard


@dataclass(slots=True)
class NodeEvidence:
    """The tensors of one run, from which nodes are explained.

    Attributes:
        recordings: the sides' recordings by label, as they were judged.
        graph: the network.
        inputs: the arrays of the graph's inputs, by name.
        pull: fetches tensors that a connected board has not sent; None without one.
        previous: returns a tensor of the frame before, by name.
        board: runs experiments; None if no board is connected.
        frozen: the cause in words of outputs that do not change with the input, which no known fault need explain.
        exact: outputs that the simulator computes bit for bit from the board's inputs (see simulated_exactly).
    """

    recordings: Mapping[str, Recording]
    graph: Graph
    inputs: Mapping[str, Array]
    pull: Pull | None = None
    previous: Find = find_nothing
    board: ExperimentBoard | None = None
    frozen: Mapping[str, str] = field(default_factory=dict)
    exact: frozenset[str] = frozenset()


def make_case(
    unit: Unit, name: str, evidence: NodeEvidence, board: tuple[Find, Find], on_host: bool = False
) -> tuple[Case | None, str]:
    """Returns the case of one output of a unit and "", or None and the name of a tensor that is not available. board:
    as board_tensors returns it. on_host: use only tensors that are on this host already."""
    from qverify.triage.case import Case

    values = {n: board[on_host](n) for n in (*unit.inputs, name)}
    lacking = [n for n, value in values.items() if value is None]
    if lacking:
        return None, lacking[0]
    recorded = values.pop(name)
    assert recorded is not None
    inputs = {n: v for n, v in values.items() if v is not None}
    return Case(evidence.graph, unit, inputs, name, recorded, board[1], evidence.previous), ""


def board_tensors(evidence: NodeEvidence, side: str = "board") -> tuple[Find, Find]:
    """Returns two functions that return the board's tensor by name, or None if it is not available. The first pulls the
    tensor if necessary. The second uses only tensors that are on this host already, in the board's recording or with
    the same digest in another side's, so that a search does not transfer all tensors. side: the side whose tensors are
    wanted, if it is not the board."""
    values = board_values(evidence.recordings, evidence.pull, side)
    if values is None:
        return find_nothing, find_nothing
    board_specs = values.recording.specs

    def find(name: str, get: Callable[[str], Array | None]) -> Array | None:
        if name in evidence.inputs:
            return evidence.inputs[name]
        spec, value = evidence.graph.tensors.get(name), get(name) if name in board_specs else None
        return None if spec is None or value is None else as_stored(value, spec)

    return partial(find, get=values.get), partial(find, get=values.get_local)


def list_verdicts(pairs: Iterable[Pair], side: str) -> dict[str, Forced]:
    """Returns the forced verdicts on a side by tensor, those with the names of arithmetics if there are several."""
    rows = [row for pair in pairs for row in pair.tensors if row.forced is not None and row.forced.on == side]
    rows.sort(key=lambda row: row.forced is not None and bool(row.forced.arithmetics))
    return {row.name: row.forced for row in rows if row.forced is not None}


def as_stored(value: Array, spec: TensorSpec) -> Array | None:
    """Returns the value as the network stores it: integers of a quantized tensor that is given as real values. None if
    it has another shape or type."""
    if value.shape == spec.shape and value.dtype.kind == "f" and spec.quantized and spec.numpy_dtype.kind in "iu":
        codes = restore_codes(value, spec)
        return None if isinstance(codes, str) else codes
    return value if (value.shape, value.dtype) == (spec.shape, spec.numpy_dtype) else None
