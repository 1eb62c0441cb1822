"""--check batch: runs each item of a batch alone, in the network compiled for one item, on the same board: the bytes must be
those of the batch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from qverify_agents.errors import LinkError

from qverify.errors import QVerifyError, UsageError
from qverify.model_bin.container import MAGIC
from qverify.model_bin.graph import Graph
from qverify.onnx_model.load import read_file
from qverify.onnx_model.open_dims import Dims, read_input_dims
from qverify.plural import count
from qverify.printable import printable
from qverify.report.checks import CheckDifference, CheckResult
from qverify.report.document import ReportDocument, worst
from qverify.session.host_sides import Watch
from qverify.session.request import Request
from qverify.session.run_evidence import RunEvidence
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

if TYPE_CHECKING:
    from qverify.session.checks.checked_job import CheckedJob, OpenJob

MAX_ITEMS = 64
OWN_RUNTIME = "qvrt"  # whose float results are defined bit for bit


@dataclass(frozen=True, slots=True)
class _Item:
    """A tensor of one item: the digests of the board's and of the host's bytes, "" if they are not known. nan:
    whether the board gave a NaN."""

    board: str
    host: str
    nan: bool = False


@dataclass(slots=True)
class _Batch:
    """What the batch gave: by tensor, the digests of each item's part of the board's and the host's value."""

    items: dict[str, list[_Item]] = field(default_factory=dict)
    whole: PreparedInputs | None = None
    why: str = ""
    is_own: bool = True


class BatchCheck:
    """The check of one run of a batch. Raises UsageError if the network has no open batch dim, or --shape no batch."""

    def __init__(self, request: Request):
        self._request = request
        self._files = {path: dims for path in request.models if (dims := read_input_dims(path))}
        _check_files(request.models, self._files)
        self._inputs = _batched_inputs(self._files)
        self.size = _batch_size(request, self._inputs)
        self._batch = _Batch()
        self._verdict = "", ""  # of the batch beside the host, and why
        self._verdicts = list[tuple[str, str]]()  # of each item alone

    def add(self, graph: Graph, evidence: RunEvidence | None) -> None:
        """Keeps the digests of each item's part of every tensor, while the board can still be asked for values."""
        board = evidence.results.recordings.get("board") if evidence is not None else None
        if evidence is None or board is None or board.state != "complete":
            self._batch.why = (board.why or board.state) if board is not None else "no board ran"
            return
        self._batch.whole, self._batch.is_own = evidence.prepared, board.runtime == OWN_RUNTIME
        for name in graph.observable():
            shape = graph.spec(name).shape
            if shape and shape[0] % self.size == 0:
                self._batch.items[name] = _items(evidence, name, self.size)

    def finish(self, report: ReportDocument, open_job: OpenJob, frame: int = 0, watch: Watch | None = None) -> None:
        """Runs each item alone and adds the result to the report. The job of the batch must have released its board, which
        has one connection only. open_job: opens the network of one item. frame: number of the batch's frame."""
        from qverify.session.checks.mark_check import mark_check

        self._verdict = _verdict_of(report, frame)
        result = self._run(open_job, frame, watch)
        result.board = self._request.board
        mark_check(report, result)

    def _run(self, open_job: OpenJob, frame: int, watch: Watch | None) -> CheckResult:
        if self._batch.whole is None:
            return _open(f"the batch did not run: {self._batch.why}", 0)
        shapes = {n: ((1, *s[1:]) if n in self._inputs else s) for n, s in self._request.shapes.items()}
        request = replace(self._request, models=[*self._files], shapes=shapes, checks=(), repeat=1, paranoid=False)
        job: CheckedJob | None = None
        alone = list[dict[str, _Item]]()
        try:
            job = open_job(request)
            for item in range(self.size):
                prepared = _alone(job.models.graph, self._batch.whole, self._inputs, item)
                tensors, why = self._run_alone(job, prepared, watch)
                if why:
                    return _open(f"item {item} alone: {why}", item)
                alone.append(tensors)
            return self._compare(job.models.graph, alone, frame)
        except (QVerifyError, LinkError) as error:
            return _open(f"an item alone: {' '.join(str(error).split())}", len(alone))
        finally:
            if job is not None:
                job.close()

    def _run_alone(
        self, job: CheckedJob, prepared: PreparedInputs, watch: Watch | None
    ) -> tuple[dict[str, _Item], str]:
        """Returns the tensors of a run of one item, and why the run is incomplete, "" if it is not."""
        ran = job.run_prepared(prepared, 0, watch, "", is_further=True)
        board = ran.evidence.results.recordings.get("board") if ran.evidence is not None else None
        if ran.unreached or ran.evidence is None or board is None or board.state != "complete":
            return {}, ran.unreached or (board.why if board is not None else "no board ran")
        self._verdicts.append(_verdict_of(ran.report, 0))
        known = [name for name in self._batch.items if name in job.models.graph.tensors]
        return {name: _items(ran.evidence, name, 1)[0] for name in known}, ""

    def _compare(self, graph: Graph, alone: list[dict[str, _Item]], frame: int) -> CheckResult:
        if lacking := self._find_lacking(graph, alone):
            return _open(f"output {printable(lacking)} is not known of the board in every run", self.size)
        judged, makers = self._judged(graph, alone), graph.producers()
        if not set(judged) & set(graph.outputs):
            return _open("no final output could be compared: the network itself mixes the items of a batch", self.size)
        differing = list[CheckDifference]()
        for item, tensors in enumerate(alone):
            changed = [n for n in judged if self._batch.items[n][item].board != tensors[n].board]
            if changed:
                node = makers[changed[0]].name if changed[0] in makers else changed[0]
                differing.append(CheckDifference(frame, item, "", changed[0], node, len(changed)))
        if differing:
            return self._judge(graph, differing, len(judged))
        nan = next(
            (n for n in judged for at, one in enumerate(alone) if self._batch.items[n][at].nan or one[n].nan), ""
        )
        if nan and not self._request.options.nan_equal:
            return _open(
                f"{printable(nan)} of the board has NaN in the batch and alone, which shows nothing", self.size
            )
        why = f"{self.size} items alone: the bytes of {count(len(judged), 'tensor')} are those of the batch"
        return CheckResult("batch", "PASSED", why, self.size, len(judged))

    def _find_lacking(self, graph: Graph, alone: list[dict[str, _Item]]) -> str:
        """Returns a final output with a batch of which the bytes of an item are not known, "" if there is none."""
        for name in graph.outputs:
            within = self._batch.items.get(name, [])
            by_itself = [one.get(name) for one in alone] if within else []
            if not all(item is not None and item.board for item in (*within, *by_itself)):
                return name
        return ""

    def _judged(self, graph: Graph, alone: list[dict[str, _Item]]) -> list[str]:
        """Returns the tensors that both runs of the board have, and that the host computes the same for an item in a batch
        and alone: others mix the items of a batch, as the network says."""
        names = [n for n in graph.observable() if n in self._batch.items and all(n in one for one in alone)]
        pairs = {n: [*zip(self._batch.items[n], (one[n] for one in alone), strict=True)] for n in names}
        return [n for n in names if all(a.board and b.board and a.host and a.host == b.host for a, b in pairs[n])]

    def _judge(self, graph: Graph, differing: list[CheckDifference], tensors: int) -> CheckResult:
        """Returns FAILED with the run that is wrong, where the host tells which; of another runtime than qvrt whose floats
        differ, INCONCLUSIVE where it does not."""
        first = differing[0]
        where = f"first {first.tensor}" + (f", node {first.node}" if first.node != first.tensor else "")
        more = f"; {len(differing)} of {self.size} items differ" if len(differing) > 1 else ""
        why = (
            f"item {first.item} of the batch of {self.size} gives other bytes than alone: {where} "
            f"({count(first.tensors, 'tensor')} in all){more}"
        )
        if wrong := self._find_wrong(differing):
            return CheckResult("batch", "FAILED", f"{why}; {wrong}", self.size, tensors, differing)
        if not self._batch.is_own and all(graph.spec(one.tensor).dtype.startswith("float") for one in differing):
            why = f"{why}; a runtime may add floats in another order for another batch, so that this is no fault by itself"
            return CheckResult("batch", "INCONCLUSIVE", why, self.size, tensors, differing)
        return CheckResult("batch", "FAILED", why, self.size, tensors, differing)

    def _find_wrong(self, differing: list[CheckDifference]) -> str:
        """Returns which of the two runs of an item is wrong, in words: the one that is FAILED beside the host, where the other is
        PASSED; "" where this tells of none."""
        within, why = self._verdict
        for item in (one.item for one in differing if one.item is not None):
            alone, why_alone = self._verdicts[item]
            if (within, alone) == ("PASSED", "FAILED"):
                return f"item {item} alone is wrong ({why_alone}), in the batch it is right"
            if (within, alone) == ("FAILED", "PASSED"):
                return f"item {item} alone is right, in the batch it is wrong ({why})"
        return ""


def _open(why: str, runs: int) -> CheckResult:
    return CheckResult("batch", "INCONCLUSIVE", f"--check batch: {why}", runs)


def _check_files(models: list[str], files: dict[str, dict[str, Dims]]) -> None:
    """Raises UsageError for a file of -m whose batch is fixed and which is no model.bin of the ONNX beside it."""
    for path in models:
        if path not in files and not read_file(path)[: len(MAGIC)] == MAGIC:
            raise UsageError(
                f"--check batch: {path}: its batch is fixed, so an item alone has no network; give the ONNX alone"
            )


def _batched_inputs(files: dict[str, dict[str, Dims]]) -> set[str]:
    """Returns the inputs whose first dim the ONNX leaves open. Raises UsageError if there are none."""
    found = {name for inputs in files.values() for name, dims in inputs.items() if dims and dims[0] is None}
    if found:
        return found
    if not files:
        raise UsageError("--check batch: -m names no ONNX, so an item alone has no network; give the quantized ONNX")
    path, inputs = next(iter(files.items()))
    shapes = ", ".join(f"{n}={'x'.join('?' if d is None else str(d) for d in dims)}" for n, dims in inputs.items())
    raise UsageError(
        f"--check batch: {path}: no input has an open first dim ({shapes}); export the network with a dynamic batch"
    )


def _batch_size(request: Request, inputs: set[str]) -> int:
    """Returns the size of the batch. Raises UsageError if --shape gives no batch, or the inputs different ones."""
    sizes = {shape[0] for name, shape in request.shapes.items() if name in inputs and shape}
    if len(sizes) != 1 or not 2 <= max(sizes) <= MAX_ITEMS:
        got = ", ".join(f"{n}={'x'.join(map(str, s))}" for n, s in request.shapes.items()) or "none"
        name = min(inputs)
        raise UsageError(
            f"--check batch: got --shape {got}, wanted a batch of 2 to {MAX_ITEMS}, such as --shape {name}=4x..."
        )
    return sizes.pop()


def _items(evidence: RunEvidence, name: str, size: int) -> list[_Item]:
    board, host = evidence.board_value(name)[0], evidence.host_value(name)
    parts = [(_part(board, item, size), _part(host, item, size)) for item in range(size)]
    return [_Item(_digest(theirs), _digest(ours), _has_nan(theirs)) for theirs, ours in parts]


def _has_nan(value: Array | None) -> bool:
    """Returns whether a tensor holds a NaN."""
    return value is not None and value.dtype.kind == "f" and bool(np.isnan(value).any())


def _digest(part: Array | None) -> str:
    return "" if part is None else tensor_digest(part)


def _part(value: Array | None, item: int, size: int) -> Array | None:
    """Returns an item's part of a tensor, whose first dim is a multiple of the batch; None without a value."""
    if value is None:
        return None
    length = value.shape[0] // size
    return np.ascontiguousarray(value[item * length : (item + 1) * length])


def _alone(graph: Graph, whole: PreparedInputs, batched: set[str], item: int) -> PreparedInputs:
    """Returns the inputs of one item of the batch."""
    arrays = whole.arrays()

    def prepare(spec: TensorSpec) -> PreparedInput:
        value = arrays[spec.name]
        length = value.shape[0] // spec.shape[0] if spec.name in batched else 1
        part = value[item : item + 1] if length > 1 else value
        return PreparedInput(spec, spec.aligned_bytes(np.ascontiguousarray(part)), f"item {item} of the batch")

    return PreparedInputs(tuple(prepare(graph.spec(name)) for name in graph.inputs))


def _verdict_of(report: ReportDocument, frame: int) -> tuple[str, str]:
    """Returns the worst verdict of the board's pairs of a frame, and why; "" without any."""
    pairs = [pair for pair in report.pairs if "board" in (pair.a, pair.b) and pair.frame == frame]
    verdict = worst([pair.verdict for pair in pairs]) if pairs else ""
    return verdict, next((pair.why for pair in pairs if pair.verdict == verdict), "")
