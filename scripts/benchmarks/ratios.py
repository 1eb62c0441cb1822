"""Measures ratios of run times, and peak memory: simulator / reference, compare / Polygraphy, runtime / onnxruntime."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from benchmarks.measure import good_models, in_child


def main(words: list[str]) -> int:
    argparse.ArgumentParser(prog="scripts/bench ratios", description=__doc__).parse_args(words)
    if find_spec("polygraphy") is None:  # checked before the models, which take minutes
        print("scripts/bench ratios: polygraphy is not installed here. Next: scripts/setup bench test", file=sys.stderr)
        return 2
    models = good_models()
    if not models:
        print("the real models (../shared/models) are not beside the project: only the compare bench runs")
    total = {"reference": 0.0, "simulator": 0.0}
    for model in models:
        row = {side: in_child("benchmarks.simulator_speed", str(model), side, "3") for side in total}
        for side, figures in row.items():
            total[side] += figures["seconds"]
        ratio = row["simulator"]["seconds"] / row["reference"]["seconds"]
        print(
            f"{model.name:42s} reference {row['reference']['seconds'] * 1e3:8.1f} ms  simulator {row['simulator']['seconds'] * 1e3:8.1f} ms  {ratio:5.1f}x  "
            f"peak {row['reference']['peak_mb']:.0f} / {row['simulator']['peak_mb']:.0f} MB",
            flush=True,
        )
    if models:
        print(f"simulator / reference, summed: {total['simulator'] / total['reference']:.2f}x")
    ours, theirs = (in_child("benchmarks.compare_speed", side) for side in ("ours", "polygraphy"))
    print(
        f"compare of 26 M elements in 122 tensors: ours {ours['seconds']:.2f} s ({ours['peak_mb']:.0f} MB), "
        f"Polygraphy {theirs['seconds']:.2f} s ({theirs['peak_mb']:.0f} MB), {theirs['seconds'] / ours['seconds']:.1f}x"
    )
    for model in (m for m in models if "mbv2" in m.name):
        row = {side: in_child("benchmarks.runtime_speed", str(model), side, "10") for side in ("onnxruntime", "qvrt")}
        print(
            f"{model.name}: onnxruntime 1 thread {row['onnxruntime']['seconds'] * 1e3:.1f} ms, qvrt {row['qvrt']['seconds'] * 1e3:.1f} ms, "
            f"{row['qvrt']['seconds'] / row['onnxruntime']['seconds']:.1f}x"
        )
    return 0
