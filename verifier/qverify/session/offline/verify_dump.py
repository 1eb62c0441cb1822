"""The main job with a dump in the board's place: the sides of this host run on the inputs that the device was given, and are
compared with what it dumped."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from typing import Any

from qverify.compare.combine_reports import combine
from qverify.compare.options import Options
from qverify.errors import UsageError
from qverify.files import read_regular
from qverify.model_bin.container import MAGIC
from qverify.report.document import NotRun, Pair, ReportDocument
from qverify.session.make_report import NOT_RUN
from qverify.session.offline.compare_dumps import compare_dumps
from qverify.session.offline.compare_ladder import name_sides
from qverify.session.offline.dump_pair import DumpPair
from qverify.session.offline.rejudge import mark_inconclusive
from qverify.session.other_jobs.infer import BoardAddress, infer
from qverify.session.request import BoardDump, Request
from qverify.sides.dumps.run_npz import read_index
from qverify.vendor_files.vendor_dump import Rung

BOARD = "board"
NOT_WITH_A_DUMP = {  # fields of a request that only a run of a board, or of another engine, can have
    "board": "-b",
    "runner": "--runner, --runtime or --runner-option",
    "simulators": "--simulator, --reference or an engine in -s",
    "capture": "--capture",
    "paranoid": "--paranoid",
    "reference_spread": "--reference-spread",
    "reference_engine": "--reference-engine",
    "allow_other_model": "--allow-other-model",
    "task": "--labels",
}


def verify_dump(request: Request, dump: BoardDump) -> ReportDocument:
    """Returns the report of reference, simulator and a dump as the board. request: its models are those of the host. Raises
    UsageError for options that a dump cannot have, and without inputs: those that the device was given."""
    for name, option in NOT_WITH_A_DUMP.items():
        if getattr(request, name):
            raise UsageError(f"-m {dump.path}: a dump is in the board's place; leave out {option}")
    if request.inputs.files is None:
        raise UsageError(f"-m {dump.path}: the dump is of certain inputs; give -i what the device was given")
    if request.arithmetic and not request.run_sim:
        raise UsageError("--arithmetic is computed by the simulator; give -s True")
    if not request.host:
        raise UsageError(f"-m {dump.path}: a dump is in the board's place; leave out --no-host")
    if request.repeat > 1:
        raise UsageError(f"-m {dump.path}: a dump is in the board's place; leave out --repeat")
    with tempfile.TemporaryDirectory() as folder:
        why_no_reference = _why_no_reference(request)
        sides = [*([] if why_no_reference else ["reference"]), *(["simulator"] if request.run_sim else [])]
        if not sides:
            raise UsageError(f"-m {dump.path}: no side of this host to compare it with: give the quantized ONNX in -m")
        incomplete = list[str]()
        how: dict[str, Any] = {"arithmetic": request.arithmetic or None, "quantization": request.quantization}
        rungs = [Rung(side, os.path.join(folder, side)) for side in sides]
        for rung in rungs:
            side, _ = infer(
                request.models, rung.name, BoardAddress(""), request.inputs, rung.path, request.shapes, **how
            )
            if side.state != "complete":
                incomplete.append(f"{rung.name}: {side.state}: {side.why}")
        rungs.append(Rung(BOARD, dump.path))
        pairs = [(a, b) for at, a in enumerate(rungs) for b in rungs[at + 1 :]]
        options = replace(request.options, named=request.options.named | {"dump_all"})
        reports = [name_sides(_compare(request, dump, (a, b), options, a is rungs[0]), a, b) for a, b in pairs]
    report = combine(reports)
    _share_arithmetics([pair for pair in report.pairs if pair.b == BOARD])
    report.blamed = [blame for at, blame in enumerate(report.blamed) if blame not in report.blamed[:at]]
    for why in incomplete:
        mark_inconclusive(report, why)
    report.notes = [f"board: {dump.path}, a dump", *dict.fromkeys(report.notes)]
    report.not_run = [] if request.run_sim else [NotRun("simulator", "-s False")]
    report.not_run += [NotRun("reference", why_no_reference)] if why_no_reference else []
    return report


def _why_no_reference(request: Request) -> str:
    """Returns why the reference is no side, "" if it is one."""
    if request.arithmetic:
        return "it does not compute as --arithmetic states"
    only_binary = all(read_regular(path, len(MAGIC), follow=True) == MAGIC for path in request.models)
    return NOT_RUN["reference"] if only_binary else ""


def _share_arithmetics(pairs: list[Pair]) -> None:
    """States in all pairs of the dump that FAILED what was found of its final outputs in the first one."""
    found = [text for text in pairs[0].arithmetics if text in pairs[0].relaxed] if pairs else []
    for pair in pairs[1:]:
        if pair.verdict == "FAILED" and not pair.arithmetics:
            pair.arithmetics += found
            pair.relaxed += found


def _compare(
    request: Request, dump: BoardDump, rungs: tuple[Rung, Rung], options: Options, first: bool
) -> ReportDocument:
    """Returns the report of one pair. first: whether the dump is compared with the first side."""
    model = next((path for path in request.models if not path.endswith(".bin")), request.models[0])
    narrow = not request.options.dump_all
    a, b = rungs
    dumps = DumpPair(a.path, b.path, model, outputs_only=narrow, arithmetic=request.arithmetic or "")
    dumps = replace(dumps, quantization=request.quantization, shapes=request.shapes)
    if b.name == BOARD:
        side = dump.reading.side or (BOARD if not dump.profile and read_index(dump.path) is not None else "")
        dumps = replace(
            dumps,
            profile_b=dump.profile,
            reading=replace(dump.reading, side=""),
            side_b=side,
            names=dump.names,
            partial=True,
            inputs=request.inputs,
            is_first_pair=first,
        )
    report = compare_dumps(dumps, options)
    if narrow and b.name != BOARD:
        for pair in report.pairs:
            pair.scope = "final outputs"
    return report
