"""Plants one or two mistakes, drawn by a seed, in an application of a detector with 8,400 anchors, and measures what `outputs
diff` says and the processor seconds of the whole command; with --before beside another checkout, case by case in turn."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.measure import show_figures

Array = npt.NDArray[Any]
ROOT = Path(__file__).resolve().parents[2]
SIDE, FRAME, CLASSES, ANCHORS = 640, (1280, 720), 20, 8400
DECODER = f"yolov8,size={SIDE}x{SIDE},frame={FRAME[0]}x{FRAME[1]},fit=letterbox,clip=true"
MISTAKES: dict[str, dict[str, Any]] = {  # what differs in the application
    "xywh": {"form": "xywh"},
    "cxcywh": {"form": "cxcywh"},
    "yxyx": {"form": "yxyx"},
    "class from 1": {"first": 1},
    "padding not cut": {"pad": 0.0},
    "stretched": {"stretch": True},
    "ratio not undone": {"ratio": 1.0},
    "width and height exchanged": {"turned": True},
    "sigmoid once too often": {"again": True},
    "score 0.6": {"least": 0.6},
    "IoU 0.7": {"iou": 0.7},
    "across classes": {"agnostic": True},
    "no NMS": {"iou": 2.0},
    "the best ten": {"top": 10},
    "one class too late": {"skip": 1},
}
Settings = dict[str, Any]
_ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # modules are compiled once


def make_outputs(seed: int) -> Array:
    """Returns (1, 4 + classes, anchors): objects that several anchors see, some of which overlap each other."""
    g = np.random.default_rng(seed)
    out = np.zeros((1, 4 + CLASSES, ANCHORS), np.float32)
    out[0, :2], out[0, 2:4] = g.uniform(150, 490, (2, ANCHORS)), g.uniform(10, 60, (2, ANCHORS))
    out[0, 4:] = g.uniform(0, 0.2, (CLASSES, ANCHORS))
    for at in g.choice(ANCHORS - 8, 24, replace=False):
        label, centre = g.integers(CLASSES), np.array([g.uniform(20, 620), g.uniform(150, 490)])
        for near in range(6):
            out[0, :4, at + near] = [*(centre + g.uniform(-9, 9, 2)), *g.uniform(30, 50, 2)]
            out[0, 4 + (label + int(near == 5)) % CLASSES, at + near] = g.uniform(0.3, 0.95)
    return out


def apply(out: Array, told: Settings) -> list[dict[str, Any]]:
    """Returns the rows that an application with these mistakes writes."""
    values, scores = out[0].T.astype(float), out[0, 4 + told.get("skip", 0) :].T.astype(float)
    scores = 1 / (1 + np.exp(-scores)) if told.get("again") else scores
    best, labels = scores.max(axis=1), scores.argmax(axis=1)
    half = values[:, 2:4][:, :: -1 if told.get("turned") else 1] / 2
    boxes = np.concatenate([values[:, :2] - half, values[:, :2] + half], axis=1)
    kept: list[int] = []
    for at in np.argsort(-best, kind="stable").tolist():
        if best[at] <= told.get("least", 0.25) or len(kept) == told.get("top", 300):
            break
        low, high = np.maximum(boxes[at, :2], boxes[kept, :2]), np.minimum(boxes[at, 2:], boxes[kept, 2:])
        inner = np.maximum(high - low, 0).prod(axis=1)
        whole = (boxes[kept, 2:] - boxes[kept, :2]).prod(axis=1) + (boxes[at, 2:] - boxes[at, :2]).prod() - inner
        same = (labels[kept] == labels[at]) | told.get("agnostic", False)
        if not ((inner / whole > told.get("iou", 0.45)) & same).any():
            kept.append(at)
    pad = np.array([0.0, told.get("pad", 140.0)] * 2)
    ratio = np.full(4, told.get("ratio", SIDE / FRAME[0]))
    if told.get("stretch"):
        pad, ratio = np.zeros(4), np.array([SIDE / FRAME[0], SIDE / FRAME[1]] * 2)
    placed = np.clip((boxes[kept] - pad) / ratio, 0, np.array([*FRAME, *FRAME]))
    written = _write(placed.astype(np.float32), told.get("form", "xyxy")).tolist()
    first = told.get("first", 0)
    return [
        {"class": int(labels[at]) + first, "score": float(np.float32(best[at])), "box": box}
        for at, box in zip(kept, written, strict=True)
    ]


def _write(boxes: Array, form: str) -> Array:
    low, size = boxes[:, :2], boxes[:, 2:] - boxes[:, :2]
    forms = {"xywh": [low, size], "cxcywh": [low + size / 2, size], "yxyx": [boxes[:, [1, 0]], boxes[:, [3, 2]]]}
    return np.asarray(np.concatenate(forms.get(form, [boxes]), axis=1))


def _run(root: Path, folder: Path, seconds: float) -> tuple[float, list[str]]:
    """Returns the processor seconds of the command of a checkout, and the explanations that it calls exact."""
    words = ["outputs", "diff", str(folder / "r.npz"), str(folder / "d.json"), "--decoder", DECODER]
    code = "import sys; from qverify.cli.main import main; sys.exit(main())"
    paths = os.pathsep.join(str(root / room) for room in ("verifier", "agents", "farm"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", code, *words, "--seconds", str(seconds), "--json", str(folder / "j.json")],
        stdout=subprocess.DEVNULL,
        env={**_ENVIRONMENT, "PYTHONPATH": paths},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (part,) = json.loads((folder / "j.json").read_text())["parts"]
    found = [" + ".join(c["said"] for c in causes) for group in part["exact"] for causes in group]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, found


def measure(seed: int, single: int, double: int, seconds: float, roots: dict[str, Path]) -> dict[str, Any]:
    """Returns, for each checkout, how many cases are explained and the processor seconds of those."""
    g = np.random.default_rng(seed)
    alone = [(name,) for name in MISTAKES]
    pairs = [p for p in combinations(MISTAKES, 2) if not MISTAKES[p[0]].keys() & MISTAKES[p[1]].keys()]
    figures: dict[str, Any] = {name: {"single": [], "double": []} for name in roots}
    for kind, choices, number in (("single", alone, single), ("double", pairs, double)):
        for case in g.permutation(len(choices))[:number].tolist():
            out = make_outputs(int(g.integers(1 << 30)))
            told: Settings = {k: v for name in choices[case] for k, v in MISTAKES[name].items()}
            rows = apply(out, told)
            fewer = [apply(out, {k: v for k, v in told.items() if k not in MISTAKES[n]}) for n in choices[case]]
            if rows in fewer:
                continue  # a mistake that changes nothing here
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                np.savez(folder / "r.npz", o=out)
                (folder / "d.json").write_text(json.dumps(rows))
                for which, root in roots.items():
                    used, found = _run(root, folder, seconds)
                    figures[which][kind].append((used, bool(found)))
                    print(f"{' + '.join(choices[case])}: {which}: {used:.1f} s, {found[:1]}", file=sys.stderr)
    return {name: {kind: _sum_up(cases) for kind, cases in kinds.items()} for name, kinds in figures.items()}


def _sum_up(cases: list[tuple[float, bool]]) -> dict[str, Any]:
    named = sorted(used for used, found in cases if found)
    if not named:
        return {"cases": len(cases), "named": 0}
    return {
        "cases": len(cases),
        "named": len(named),
        "median_s": round(statistics.median(named), 2),
        "95_percent_s": round(named[min(int(0.95 * len(named)), len(named) - 1)], 2),
        "most_s": round(named[-1], 2),
    }


def main(words: Sequence[str]) -> int:
    """Measures and prints the figures. words: the options."""
    parser = argparse.ArgumentParser(prog="scripts/bench outputs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of what is drawn (default: 1)")
    parser.add_argument("--single", type=int, default=15, help="number of single mistakes (default: 15)")
    parser.add_argument("--double", type=int, default=20, help="number of pairs of mistakes (default: 20)")
    parser.add_argument("--seconds", type=float, default=60, help="limit of a search by the clock (default: 60)")
    parser.add_argument("--before", help="folder of another checkout, which is measured beside this one")
    parser.add_argument("--json", help="file for the figures")
    given = parser.parse_args(words)
    roots = {"now": ROOT} | ({"before": Path(given.before)} if given.before else {})
    show_figures(measure(given.seed, given.single, given.double, given.seconds, roots), given.json)
    return 0
