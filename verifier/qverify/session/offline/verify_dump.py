"""The main job with a dump in the board's place: the sides of this host run on the inputs that the device was given, and are
compared with what it dumped."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from typing import Any

from qverify.compare.options import Options
from qverify.compare.verdict import combine
from qverify.errors import UsageError
from qverify.report.document import NotRun, ReportDocument
from qverify.session.offline.compare_dumps import DumpPair, compare_dumps
from qverify.session.offline.compare_ladder import name_sides
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
        sides = ["reference"] if not request.arithmetic else []  # which computes otherwise than is stated of the board
        sides += ["simulator"] if request.run_sim else []
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
        reports = [name_sides(_compare(request, dump, (a, b), options), a, b) for a, b in pairs]
    report = combine(reports)
    report.blamed = [blame for at, blame in enumerate(report.blamed) if blame not in report.blamed[:at]]
    for why in incomplete:
        mark_inconclusive(report, why)
    report.notes = [f"board: {dump.path}, a dump", *dict.fromkeys(report.notes)]
    report.not_run = [] if request.run_sim else [NotRun("simulator", "-s False")]
    if request.arithmetic:
        report.not_run.append(NotRun("reference", "it does not compute as --arithmetic states"))
    return report


def _compare(request: Request, dump: BoardDump, rungs: tuple[Rung, Rung], options: Options) -> ReportDocument:
    model = next((path for path in request.models if not path.endswith(".bin")), request.models[0])
    narrow = not request.options.dump_all
    a, b = rungs
    dumps = DumpPair(a.path, b.path, model, outputs_only=narrow, arithmetic=request.arithmetic or "")
    dumps = replace(dumps, quantization=request.quantization)
    if b.name == BOARD:
        side = dump.reading.side or (BOARD if not dump.profile and read_index(dump.path) is not None else "")
        dumps = replace(
            dumps,
            profile_b=dump.profile,
            reading=replace(dump.reading, side=""),
            side_b=side,
            names=dump.names,
            partial=True,
        )
    report = compare_dumps(dumps, options)
    if narrow and b.name != BOARD:
        for pair in report.pairs:
            pair.scope = "final outputs"
    return report
