"""Measures triage and a single verification, healthy and failing; a reduction; and a capture and zstd on the same
bytes."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from qverify.capture.writer import CaptureWriter
from qverify.compare.options import Options
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.session.host_sides import HostSides
from qverify.session.job import verify
from qverify.session.models import open_models
from qverify.session.request import Request
from qverify.session.triage.reduce_model import reduce
from qverify.session.triage.run_triage import triage
from qverify.session.triage.triage_request import TriageRequest

from benchmarks.measure import good_models, median_s, show_figures

REPEAT = 3
PHOTO = "inputs/images/STM32H573I-DK-Top.png"
PPOCR = {
    "format": "featuremap",
    "train": "bgr",
    "fit": "letterbox-top-left",
    "library": "pillow",
    "mean": "123.675,116.28,103.53",
    "scale": "0.01712475,0.017507,0.01742919",
}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench triage", description=__doc__)
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    models = [m for m in good_models() if m.name.endswith("u8s8_qdq.onnx")]
    if not models:
        print("the real models (../shared/models) are not beside the project", file=sys.stderr)
        return 1
    figures: dict[str, Any] = {"ratios": [_ratio(m) for m in models]}
    for board in ("healthy", "failing"):
        figures[board] = statistics.median(row[board] for row in figures["ratios"])
    figures["reduce"] = _measure_reduction(next(m for m in good_models() if m.name.startswith("mbv2")))
    figures["capture"] = _measure_capture(next(m for m in good_models() if m.name == "ppocr_v3_det_480_s8s8_qdq.onnx"))
    show_figures(figures, options.path)
    return 0


def _faulty_board(model: str) -> tuple[str, int]:
    """Returns the address of a faulty board whose fault is at the convolution nearest to the middle, and the number of
    nodes of the model."""
    nodes = open_models([model]).graph.nodes
    places = [n.outputs[0] for n in nodes if n.op in ("conv", "fully_connected", "matmul")]
    return f"faulty:local?fault=plus_one@{places[len(places) // 2]}", len(nodes)


def _ratio(model: Path) -> dict[str, Any]:
    """Returns the time of triage without a float file divided by that of one verification, for a healthy and a failing
    board."""
    row: dict[str, Any] = {"model": model.name}
    for kind, board in (("healthy", "local"), ("failing", _faulty_board(str(model))[0])):
        request = Request([str(model)], board, options=Options(dump_all=True))
        triage_request = TriageRequest([str(model)], board=board)
        verification_s = median_s(partial(verify, request), REPEAT)
        row[kind] = round(median_s(partial(triage, triage_request), REPEAT) / verification_s, 2)
        row[f"{kind}_s"] = round(verification_s, 3)
    print(row, file=sys.stderr, flush=True)
    return row


def _measure_reduction(model: Path) -> dict[str, Any]:
    """Measures the reduction of a model with a faulty node."""
    board, nodes = _faulty_board(str(model))
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        reduced = reduce(Request([str(model)], board, options=Options(dump_all=True)), f"{folder}/out")
        seconds = time.perf_counter() - start
    return {
        "model": model.name,
        "of": nodes,
        "nodes": reduced.nodes,
        "runs": reduced.runs,
        "seconds": round(seconds, 2),
    }


def _measure_capture(model: Path) -> dict[str, Any]:
    """Measures the capture of a photo's tensors, which are equal on all sides, and zstd level 1 of the same bytes."""
    opened = open_models([str(model)])
    photo = model.parents[1] / PHOTO
    request = InputRequest(f"{opened.graph.inputs[0]}:{photo}", tables={"": PPOCR})
    prepared = prepared_inputs(opened.graph, request)
    ran = HostSides(opened).run(prepared, True)
    ran.recordings["board"] = ran.recordings["simulator"]
    raw = b"".join(np.ascontiguousarray(v).tobytes() for v in ran.recordings["simulator"].tensors.values())
    plain = median_s(lambda: zstandard.ZstdCompressor(level=1).compress(raw), REPEAT)
    sizes: list[int] = []

    def capture() -> None:
        with tempfile.TemporaryDirectory() as folder:
            writer = CaptureWriter(f"{folder}/cap", {})
            writer.add_frame(0, "photo", prepared, ran.recordings, None)
            writer.close()
            sizes.append(Path(folder, "cap", "parts.zst").stat().st_size)

    ours = median_s(capture, REPEAT)
    return {
        "raw_bytes": len(raw),
        "speed_of_zstd": round(plain / ours, 2),
        "size_of_raw": round(sizes[-1] / len(raw), 2),
    }
