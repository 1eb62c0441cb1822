"""Verifies one network in several shapes of its dynamic inputs, and makes one report with a row for each shape."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from qverify.errors import QVerifyError, UsageError
from qverify.onnx_model.open_dims import Dims, read_dim_names, read_input_dims
from qverify.plural import count
from qverify.printable import printable
from qverify.report.checks import ShapeResult
from qverify.report.document import ReportDocument, TensorRow
from qverify.session.host_sides import Watch
from qverify.session.job import Job, JobOutcome, verify
from qverify.session.many_frames import KeptReports, OnFrame, frame_row, not_run_row
from qverify.session.models import parse_shapes
from qverify.session.request import Request

MAX_SHAPES = 64  # networks that one run compiles
MAX_COMBINATIONS = 4096  # of all options; of several inputs with the same dims few are possible
Shape = dict[str, tuple[int, ...]]
_CHOICE = re.compile(r"\{([^{}]*)\}")


def sweep_shapes(values: Sequence[str]) -> list[Shape]:
    """Returns the shapes of --shape NAME=1x3x{224,256}x{224,256}: every combination of the dims in braces, each once, in
    the order of the options. Without braces there is one. Raises UsageError for more than MAX_SHAPES, and as
    parse_shapes does."""
    choices = [_choices(value) for value in values]
    numbers = [math.prod(len(dim) for dim in parts) for parts in choices]
    number = math.prod(numbers)
    if max(numbers, default=1) > MAX_SHAPES or number > MAX_COMBINATIONS:
        raise UsageError(f"--shape {' '.join(values)}: {number} shapes, each a network; wanted at most {MAX_SHAPES}")
    each = [["".join(parts) for parts in itertools.product(*parts_of)] for parts_of in choices]
    rows = [parse_shapes(row) for row in itertools.product(*each)]
    return [row for at, row in enumerate(rows) if row not in rows[:at]]


def _choices(value: str) -> list[list[str]]:
    """Returns the texts that an option consists of, in turn: each with its alternatives."""
    name, equals, dims = value.rpartition("=")
    parts = _CHOICE.split(dims)  # text, inside of braces, text ...
    return [[f"{name}{equals}"], *(part.split(",") if at % 2 else [part] for at, part in enumerate(parts))]


def verify_shapes(
    request: Request, on_shape: OnFrame, watch: Watch | None = None, frames: Sequence[Any] | None = None
) -> JobOutcome:
    """Verifies the network in each shape of request.sweep, each compiled and run by itself, and calls on_shape(row) after
    each. A shape with which the network cannot be compiled or run is listed as not run, and the others still run. The
    verdict is the worst. frames: the frames of -i, which must be one. Raises UsageError for options that a sweep cannot
    have, for dims that contradict the network's fixed ones, and if no shape ran; nothing has run before."""
    _check_request(request, frames)
    _check_fixed_dims(request)
    kept, rows, results = KeptReports(), list[dict[str, Any]](), list[ShapeResult]()
    unreached, first_error, finals = "", "", list[str]()
    sweep = possible_shapes(request)
    for number, shape in enumerate(sweep):
        result = ShapeResult({n: [*dims] for n, dims in shape.items()}, number, "NOT RUN", board=request.board)
        source = f"shape {result.text}"
        own = replace(request, shapes=shape, sweep=())
        try:
            if unreached:
                raise UsageError("the board was not reached")
            job = Job(own)
            outcome = verify(own, watch, job, number, source)
            rows.append(frame_row(number, source, outcome.report))
            _describe(result, outcome.report, job)
            kept.add(outcome.report, rows[-1])
            unreached, finals = outcome.unreached, outcome.finals
        except QVerifyError as error:
            rows.append(not_run_row(number, source, error, board_lost=bool(unreached)))
            result.why = rows[-1]["why"]
            first_error = first_error or result.why
        results.append(result)
        on_shape(rows[-1])
    if not kept.reports:
        raise UsageError(f"--shape: none of {len(rows)} shapes could be verified: {first_error}")
    for row in rows:
        row["board"] = request.board
    whole = kept.combine(rows, "shape")
    whole.shapes = results
    if left_out := len(request.sweep) - len(sweep):
        whole.notes.append(f"{count(left_out, 'combination')} of --shape left out: dims of one name are one size")
    return JobOutcome(whole, finals, unreached)


def possible_shapes(request: Request) -> list[Shape]:
    """Returns the shapes of request.sweep in which every open dim has one size: inputs whose dims have one name in the ONNX (h, w,
    batch) change together. Raises UsageError if none is left."""
    names = {name: dims for path in request.models for name, dims in read_dim_names(path).items()}
    possible = [shape for shape in request.sweep if not _two_sizes(shape, names)]
    if request.sweep and not possible:
        dim = _two_sizes(request.sweep[0], names)
        raise UsageError(
            f"--shape: dim {printable(dim)} is one size in the network; wanted the same for every input that has it"
        )
    if len(possible) > MAX_SHAPES:
        raise UsageError(f"--shape: {len(possible)} shapes, each a network; wanted at most {MAX_SHAPES}")
    return possible


def _two_sizes(shape: Shape, names: dict[str, list[str]]) -> str:
    """Returns the name of a dim that has two sizes in a shape, "" if none has."""
    sizes = dict[str, int]()
    for name, dims in shape.items():
        for dim, size in zip(names.get(name, []), dims, strict=False):
            if dim and sizes.setdefault(dim, size) != size:
                return dim
    return ""


def _check_request(request: Request, frames: Sequence[Any] | None) -> None:
    """Raises UsageError for what a run of several networks cannot have."""
    given = {
        "-i with several frames": frames is not None,
        "--capture": request.capture is not None,
        "--steps": request.sequence is not None,
        "--labels and --task-metric": request.task is not None,
    }
    if option := next((name for name, value in given.items() if value), ""):
        raise UsageError(
            f"{option}: --shape with several shapes runs a network for each on one frame; leave one of them out"
        )


def _check_fixed_dims(request: Request) -> None:
    """Raises UsageError if a shape contradicts an input's fixed dims, or names no input, or if a file of -m has fixed
    shapes."""
    known = dict[str, Dims]()
    for path in request.models:
        inputs = read_input_dims(path)
        if not inputs:
            raise UsageError(
                f"{path}: its shapes are fixed; --shape with several shapes wants the quantized ONNX alone, which is compiled for each"
            )
        known |= inputs
    for shape in request.sweep:
        for name, dims in shape.items():
            if name not in known:
                raise UsageError(f"--shape {name}: no such input; the network has {', '.join(known)}")
            _check_dims(name, dims, known[name])


def _check_dims(name: str, dims: Sequence[int], known: Dims) -> None:
    if len(dims) == len(known) and all(d is None or d == given for given, d in zip(dims, known, strict=True)):
        return
    wanted = "x".join("?" if d is None else str(d) for d in known)
    raise UsageError(
        f"--shape {name}={'x'.join(map(str, dims))}: the network has {name}={wanted}, with ? for a dim that is open"
    )


def _describe(result: ShapeResult, report: ReportDocument, job: Job) -> None:
    """Completes the row of a shape that ran."""
    result.verdict, result.node = report.verdict, worst_node(report)
    result.why = next((p.why for p in report.pairs if p.verdict == report.verdict and p.why), "")
    result.why = "" if report.verdict == "PASSED" else result.why
    result.sha256, result.bytes = job.models.binary_sha256, len(job.models.binary)


def worst_node(report: ReportDocument) -> str:
    """Returns the first blamed node; without one, the node of the tensor with the lowest SQNR, of those of the worst
    verdict; "" if no tensor differs."""
    if report.blame is not None:
        return report.blame.node
    rows = [row for pair in report.pairs for row in pair.tensors if not row.bit_equal]
    order = {"FAILED": 0, "INCONCLUSIVE": 1, "PASSED": 2}
    return min(rows, key=lambda row: (order[row.verdict], _sqnr(row))).node if rows else ""


def _sqnr(row: TensorRow) -> float:
    value = row.metrics.get("sqnr_db")
    return float(value) if isinstance(value, (int, float)) and not math.isnan(value) else -math.inf
