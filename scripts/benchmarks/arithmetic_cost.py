"""Measures what a verification under a learned arithmetic costs beside the same one in ref-exact, in processor time of
qverify and of the runtime on `local`, and what a fit from a recording costs."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from qverify.cli.main import main as qverify
from qverify.compare.options import Options
from qverify.session.job import verify
from qverify.session.request import Request

from benchmarks.measure import good_models, show_figures

REPEAT = 3
FITTED = "mbv1_025_224_s8s8_qdq.onnx"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench arithmetic", description=__doc__)
    parser.add_argument("--arithmetic", default="litert-reference", metavar="NAME", help="[default: %(default)s]")
    parser.add_argument("--repeat", type=int, default=REPEAT, metavar="N", help="[default: %(default)s]")
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    models = good_models()
    if not models:
        print("the real models (../shared/models) are not beside the project", file=sys.stderr)
        return 1
    rows = [_measure(m, options.arithmetic, options.repeat) for m in models]
    total = sum(r["learned_s"] for r in rows) / sum(r["exact_s"] for r in rows)
    figures: dict[str, Any] = {
        "arithmetic": options.arithmetic,
        "models": rows,
        "median": round(statistics.median(r["ratio"] for r in rows), 2),
        "all": round(total, 2),
        "largest": max(r["ratio"] for r in rows),
        "fit_s": _measure_fit(next(m for m in models if m.name == FITTED)),
    }
    show_figures(figures, options.path)
    return 0


def _processor_s(call: Callable[[], object]) -> float:
    """Returns the processor time of a call, of its threads and of the children that it waited for."""
    before = os.times()
    call()
    return sum(os.times()[:4]) - sum(before[:4])


def _measure(model: Path, arithmetic: str, repeat: int) -> dict[str, Any]:
    """Returns the processor time of a verification in both arithmetics, measured in turns."""
    requests = {
        "exact": Request([str(model)], "local", options=Options(dump_all=True), arithmetic=None),
        "learned": Request([str(model)], "local", options=Options(dump_all=True), arithmetic=arithmetic),
    }
    taken: dict[str, list[float]] = {key: [] for key in requests}
    for turn in range(repeat + 1):  # the first is not counted
        for key, request in requests.items():
            seconds = _processor_s(partial(verify, request))
            taken[key] += [seconds] if turn else []
    row = {f"{key}_s": round(statistics.median(times), 3) for key, times in taken.items()}
    print(f"{model.name:42s} {row['exact_s']:.2f} s, {row['learned_s']:.2f} s", file=sys.stderr, flush=True)
    return {"model": model.name, **row, "ratio": round(row["learned_s"] / row["exact_s"], 2)}


def _measure_fit(model: Path) -> float:
    """Returns the processor time of a fit from a recording of every node, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        binary, dump, written = (os.path.join(folder, n) for n in ("m.bin", "dump", "found.toml"))
        qverify(["compile", str(model), "-o", binary, "--rounding", "gemmlowp"])
        qverify(["infer", "-m", binary, "--side", "simulator", "-o", dump])
        seconds = _processor_s(lambda: qverify(["identify", dump, "-m", str(model), "-o", written]))
    return round(seconds, 2)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
