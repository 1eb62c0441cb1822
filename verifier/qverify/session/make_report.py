"""Makes one report from the recordings of all sides: the comparison, and notes on inputs, models and the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from qverify.compare.drawings.inputs import draw_inputs
from qverify.compare.forced import Located
from qverify.compare.later import Later
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.inputs.described_inputs import described_inputs
from qverify.inputs.description_keys import describe_unverified
from qverify.inputs.likely_mistakes import find_likely_mistakes
from qverify.model_bin.units import units
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import NotRun, ReportDocument
from qverify.session.host_sides import SideResults
from qverify.session.models import Models
from qverify.session.what_ran import describe_what_ran
from qverify.tensors.prepared import PreparedInputs

Pull = Callable[[list[str]], Any]
COMPUTES = (
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "ORT_",
    "ONEDNN_",
    "DNNL_",
    "NPY_DISABLE",
    "KMP_",
    "GOMP_",
)  # variables of libraries
MAX_VARIABLE = 200  # characters
NOT_RUN = {
    "reference": "no quantized ONNX given",
    "simulator": "-s False",
    "board": "no -b given",
}
_NO_GRAPH = "the reference engine gives no integer graph"


def make_report(
    models: Models,
    prepared: PreparedInputs,
    ran: SideResults,
    options: Options,
    pull: Pull | None = None,
    located: list[Located] | None = None,
    later: Later | None = None,
) -> ReportDocument:
    """Judges the recordings of all sides and returns the report. pull: fetches tensors from the board; None if they
    cannot be fetched. located, later: as for judge_all."""
    report = judge_all(
        ran.recordings,
        models.graph,
        models.graph.once(units),
        options,
        ran.run_unit,
        pull,
        prepared.arrays(),
        distrusted=ran.canary.get("distrusted", ()),
        located=located,
        later=later,
        recomputes=models.engine is None,
        kernel_sets=ran.kernel_sets,
        made=models.onnx_names.made if "board" in ran.recordings or "dump" in ran.recordings else (),
    )
    _state_same_engines(report, ran)
    _complete(report, models, prepared, ran)
    if options.drawings:
        report.input_drawings = draw_inputs(prepared)
    return report


def _state_same_engines(report: ReportDocument, ran: SideResults) -> None:
    """States in the verdict of each pair of an engine and a side of the same engine that they share its faults."""
    for pair in report.pairs:
        sides = [ran.recordings[side] for side in (pair.a, pair.b) if side in ran.recordings]
        engines = {(side.engine, side.version) for side in sides}
        if len(sides) == 2 and len(engines) == 1 and any(side.is_engine for side in sides):
            name = " ".join(next(iter(engines))).strip()
            pair.relaxed.append(f"both sides are {name}: what it computes wrongly is equal on both")


def _complete(report: ReportDocument, models: Models, prepared: PreparedInputs, ran: SideResults) -> None:
    """Adds inputs, models, sides that did not run, notes, caveats and timings to a report."""
    report.inputs = [
        {"name": i.spec.name, "source": printable(i.source), "sha256": i.sha256, "seed": i.seed}
        for i in prepared.inputs
    ]
    report.models = list(models.rows)
    no_runs = {**NOT_RUN, **({"simulator": _NO_GRAPH} if models.engine is not None else {})}
    no_runs |= {"simulator": models.no_simulator} if models.no_simulator else {}
    if engines := [r.side for r in ran.recordings.values() if r.is_engine]:
        no_runs["simulator"] = f"{engines[0]} ran in its place"
        if models.compiled is not None:
            no_runs["reference"] = f"{engines[0]} ran in its place"
    report.not_run = [NotRun(side, why) for side, why in no_runs.items() if side not in ran.recordings]
    report.plain_onnxruntime = {"outputs": ran.plain}
    report.canary = ran.canary
    report.no_integer_reference = [
        {
            "node": n.name,
            "op": n.op,
            "why": "onnxruntime has no integer kernel for it; the reference computes it in float32",
        }
        for n in models.graph.nodes
        if not n.integer_reference
    ]
    report.on_host = [
        {"node": n.name, "op": n.op, "why": n.why} for island in models.graph.islands for n in island.nodes
    ]
    for item in described_inputs(models.graph).values():
        if item.description is not None and (doubt := describe_unverified(item.description)):
            report.notes.append(
                f"input {item.name}: {doubt} follows published facts, but was never compared with a vendor's tool"
            )
    report.notes += models.notes + [note for r in ran.recordings.values() for note in r.notes]
    report.notes += describe_what_ran(report, ran.recordings.get("board"))
    mistakes = find_likely_mistakes(models.graph, prepared)
    report.caveats = [*models.caveats, *(m.text for m in mistakes)]
    report.drafts = {m.input: m.draft for m in mistakes if m.draft}
    report.notes += _describe_canary(ran.canary)
    report.environment = {
        name: printable(value[:MAX_VARIABLE]) for name, value in sorted(os.environ.items()) if name.startswith(COMPUTES)
    }
    report.timings |= {r.side: r.duration_s for r in ran.recordings.values()}


def _describe_canary(canary: dict[str, Any]) -> list[str]:
    """Returns the warning about this host's onnxruntime; [] if it computes the known values of the canary."""
    from qverify.onnx_model.canary import MIXED

    failing, distrusted = canary.get("failing", []), canary.get("distrusted", [])
    if not distrusted and all(name.endswith(MIXED) for name in failing):
        return []
    return [
        f"WARNING: onnxruntime on this host computes these differently from known values (canary): {', '.join(failing)}; "
        f"{count(len(distrusted), 'node', 'is', 'are')} not trusted in the reference{_name_first(distrusted)}"
    ]


def _name_first(names: list[str]) -> str:
    return f", the first is {names[0]}" if names else ""
