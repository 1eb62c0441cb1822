"""Measures what judging a board that is not qvrt costs: the catalogue of arithmetics at one node beside computing that
node again, and a report on a board of which every element of every node is one off."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from qverify.compare.arithmetics import Rounded
from qverify.compare.catalogue import OPS
from qverify.compare.find_arithmetics import find_arithmetics
from qverify.compare.options import Options
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.ops import simulate_node
from qverify.session.host_sides import HostSides, SideResults
from qverify.session.make_report import make_report
from qverify.session.models import Models, open_models
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array

from benchmarks.measure import good_models, median_s, show_figures

REPEAT = 3
LEAST_S = 1e-3  # of computing a node: below, the calls themselves are measured
REPORT_ON = "ppocr_v3_det_480_s8s8_qdq.onnx"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench foreign", description=__doc__)
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    models = [m for m in good_models() if m.name.endswith("s8s8_qdq.onnx")]
    if not models:
        print("the real models (../shared/models) are not beside the project", file=sys.stderr)
        return 1
    rows = [row for model in models for row in _measure_catalogue(model)]
    figures: dict[str, Any] = {"nodes": len(rows)}
    for kind in ("noise", "fits"):
        ratios = sorted(row[kind] for row in rows)
        figures[kind] = {"median": round(statistics.median(ratios), 2), "largest": round(ratios[-1], 2)}
        figures[kind]["all"] = round(sum(r[kind] * r["s"] for r in rows) / sum(r["s"] for r in rows), 2)
    figures["report_s"] = _measure_report(next(m for m in models if m.name == REPORT_ON))
    show_figures(figures, options.path)
    return 0


def _run_host(model: Path) -> tuple[Models, PreparedInputs, SideResults]:
    opened = open_models([str(model)])
    prepared = prepared_inputs(opened.graph, InputRequest())
    return opened, prepared, HostSides(opened).run(prepared, True)


def _spoil(value: Array, seed: int) -> Array:
    """Returns the integers with every element one lower or one higher, within their type."""
    if value.dtype.kind not in "iu":
        return value
    limits, steps = np.iinfo(value.dtype), np.random.default_rng(seed).choice([-1, 1], value.shape)
    return np.clip(value.astype(np.int64) + steps, limits.min, limits.max).astype(value.dtype)


def _measure_catalogue(model: Path) -> list[dict[str, Any]]:
    """Returns, for each node that the catalogue knows, the time of the catalogue divided by that of computing the node:
    on noise, which nothing fits, and on gemmlowp's integers."""
    opened, prepared, ran = _run_host(model)
    held = {**prepared.arrays(), **ran.recordings["simulator"].tensors}
    rows = []
    for number, unit in enumerate(u for u in units(opened.graph) if u.nodes[0].op in OPS):
        given, made = {n: held[n] for n in unit.inputs}, held[unit.outputs[0]]
        computing_s = median_s(partial(_compute, unit, opened.graph, given), REPEAT)
        rounded = Rounded(unit, unit.outputs[0], opened.graph, given)
        if computing_s < LEAST_S or "gemmlowp" not in rounded.formulas:
            continue
        other = rounded.formulas["gemmlowp"](np.arange(made.size)).reshape(made.shape)
        row = {"s": computing_s}
        for kind, recorded in (("noise", _spoil(made, number)), ("fits", other)):
            call: Callable[[], Any] = partial(_search, unit, opened.graph, given, made, recorded)
            row[kind] = median_s(call, REPEAT) / computing_s
        rows.append(row)
    print(model.name, len(rows), file=sys.stderr, flush=True)
    return rows


def _compute(unit: Unit, graph: Graph, given: dict[str, Array]) -> None:
    values = dict(given)
    for node in unit.nodes:
        values |= simulate_node(graph, node, values)


def _search(unit: Unit, graph: Graph, given: dict[str, Array], made: Array, recorded: Array) -> None:
    find_arithmetics(Rounded(unit, unit.outputs[0], graph, given), made, recorded)


def _measure_report(model: Path) -> float:
    """Returns the seconds from the model's file to a report on a runner that gives every node one off."""
    start = time.perf_counter()
    opened, prepared, ran = _run_host(model)
    simulator = ran.recordings["simulator"]
    tensors = {name: _spoil(value, number) for number, (name, value) in enumerate(simulator.tensors.items())}
    board = replace(simulator, side="board", engine="runner", runtime="runner", tensors=tensors, digests={})
    ran.recordings["board"] = board
    report = make_report(opened, prepared, ran, Options(dump_all=True))
    assert report.verdict == "FAILED" and report.blame is not None
    return round(time.perf_counter() - start, 1)
