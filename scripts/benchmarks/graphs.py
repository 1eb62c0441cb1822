"""Verifies random graphs of every style on this machine's board, and runs them on boards of other architectures."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from qverify_agents.emulation.user_mode import QEMU, find_emulator

from tests.graphs.judged import BAD, Outcome, judge
from tests.graphs.made import STYLES, random_graph, style_of


def main(words: list[str]) -> int:
    """Returns 1 if a graph is neither PASSED nor refused."""
    parser = argparse.ArgumentParser(prog="scripts/bench graphs", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the first graph; the following graphs use the following numbers"
    )
    parser.add_argument("--count", type=int, default=2000, help="graphs to make")
    parser.add_argument("--style", choices=list(STYLES), default="", help="only this one")
    parser.add_argument(
        "--arch",
        nargs="*",
        default=sorted({*QEMU} - {"x86_64"}),
        help="other architectures; by default all that QEMU runs",
    )
    parser.add_argument("--keep", type=Path, help="a folder in which bad and refused graphs are kept")
    parser.add_argument("--json", dest="path", type=Path, metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    emulated = tuple(a for a in options.arch if find_emulator(a) is not None)
    missing = [a for a in options.arch if a not in emulated]
    begun, rows = time.process_time(), list[dict[str, Any]]()
    for seed in range(options.seed, options.seed + options.count):
        outcome, kinds = _judge_graph(seed, options.style, emulated, options.keep)
        rows.append(
            {
                "seed": seed,
                "style": options.style or style_of(seed),
                "kinds": kinds,
                "outcome": outcome.word,
                "said": outcome.said,
            }
        )
        if outcome.bad:
            print(f"{seed} {rows[-1]['style']}: {outcome.word}: {outcome.said[-300:]}", file=sys.stderr, flush=True)
    result = _summary(rows) | {
        "architectures": ["x86_64", *emulated],
        "skipped": missing,
        "processor_s": round(time.process_time() - begun),
    }
    print(json.dumps(result, indent=1))
    if options.path:
        options.path.write_text(json.dumps(result | {"graphs": rows}, indent=1) + "\n")
    return int(any(row["outcome"] in BAD for row in rows) or not rows)


def _judge_graph(seed: int, style: str, architectures: tuple[str, ...], keep: Path | None) -> tuple[Outcome, list[str]]:
    """Makes and judges the graph of a seed; returns the outcome and its operators."""
    graph = random_graph(seed, style)
    model = graph.model()
    with tempfile.TemporaryDirectory(prefix="qverify-graphs-") as folder:
        outcome = judge(model, graph.feed(), Path(folder), architectures)
        if keep is not None and outcome.word not in ("PASSED", "host"):
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{seed}.onnx").write_bytes(model.SerializeToString())
            (Path(folder) / "inputs.npz").replace(keep / f"{seed}.npz")
    return outcome, sorted({node.op_type for node in model.graph.node})


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    outcomes = Counter(row["outcome"] for row in rows)
    kinds = Counter(kind for row in rows if row["outcome"] == "PASSED" for kind in row["kinds"])
    refused = Counter(row["said"].splitlines()[0][:150] for row in rows if row["outcome"] in ("refused", "host"))
    return {
        "graphs": len(rows),
        "outcomes": dict(outcomes),
        "by_style": {
            s: dict(Counter(r["outcome"] for r in rows if r["style"] == s)) for s in sorted({r["style"] for r in rows})
        },
        "operators": dict(kinds.most_common()),
        "refused": dict(refused.most_common(30)),
        "bad": [row["seed"] for row in rows if row["outcome"] in BAD],
    }
