"""Plants faults in a board that returns final outputs only, and measures how many triage locates with --build-cmd
alone.

The runner is onnxruntime with one tensor mirrored, the build command is a copy, the board is `local`. A fault with
which the final outputs still pass the gate is drawn again."""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tests" / "plain" / "onnxruntime_tool.py"
EXAMPLE = ROOT / "verifier" / "qverify" / "example" / "digits_quant.onnx"
REAL = ROOT.parent / "shared" / "models" / "resnet8_cifar10" / "resnet8_cifar10_s8s8_qdq.onnx"
BUILD = "cp {onnx} {model}"
MAX_DRAWS = 10  # for each fault


def main(words: list[str]) -> int:
    """Prints how many of the planted faults were located. Returns 1 if one was not."""
    parser = argparse.ArgumentParser(prog="scripts/bench builds", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="seed of the faults and of the inputs")
    parser.add_argument("--count", type=int, default=50, help="number of faults of each network")
    parser.add_argument("--gate", default="cosine:0.999", help="gate of reference ~ board")
    parser.add_argument("--models", nargs="+", default=[str(p) for p in (EXAMPLE, REAL) if p.exists()], metavar="FILE")
    parser.add_argument("--json", metavar="FILE", help="write the rows there")
    options = parser.parse_args(words)
    rows = [row for model in options.models for row in plant(model, options.count, options.seed, options.gate)]
    for model in options.models:
        of_model = [row for row in rows if row["model"] == Path(model).name]
        right, seconds = sum(row["right"] for row in of_model), [row["seconds"] for row in of_model]
        builds = max((row["builds"] for row in of_model), default=0)
        print(
            f"{Path(model).name}: {right} of {len(of_model)} located, at most {builds} builds, {sum(seconds) / max(1, len(of_model)):.1f} s each"
        )
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if rows and all(row["right"] for row in rows) else 1


def plant(model: str, count: int, seed: int, gate: str) -> list[dict[str, Any]]:
    """Returns a row for each fault of one network that changes its final outputs."""
    from qverify.onnx_model.cut_written import WrittenModel
    from qverify.session.models import open_models

    opened = open_models([model])
    assert opened.original is not None
    computed = WrittenModel(opened.original, opened.graph.tensors).computed
    places = [name for name in opened.graph.observable() if name in computed]
    drawn, rows = random.Random(seed), list[dict[str, Any]]()
    for _ in range(count * MAX_DRAWS):
        if len(rows) == count:
            break
        node = drawn.choice(places)
        row = triage_one(model, node, drawn.randrange(1 << 16), gate)
        if row is not None:
            rows.append(row)
            print(
                f"{row['model']} {len(rows)}/{count} {node}: {'located' if row['right'] else row['said']}",
                file=sys.stderr,
            )
    return rows


def triage_one(model: str, node: str, seed: int, gate: str) -> dict[str, Any] | None:
    """Returns the row of one fault, or None if the board passes."""
    from qverify.inputs.sources import InputRequest
    from qverify.session.triage.run_triage import run_triage
    from qverify.session.triage.triage_request import TriageRequest
    from qverify.triage.ladder import parse_gate

    tool = [sys.executable, str(TOOL), "--model", "{model}", "--inputs", "{npys}", "--out", "{out}", "--spoil", node]
    line = " ".join(word if word.startswith("{") else shlex.quote(word) for word in tool)
    start, lines = time.monotonic(), list[str]()
    request = TriageRequest(
        [model],
        board="local",
        run_sim=False,
        inputs=InputRequest(seed=seed),
        gates=dict([parse_gate(f"reference~board={gate}")]),
        loss="never",
        runner=(("command", line),),
        build=BUILD,
    )
    report, _ = run_triage(request, tell=lines.append)
    rung = next(r for r in report.rungs if (r.a, r.b) == ("reference", "board"))
    if rung.verdict == "PASSED":
        return None
    blamed = rung.blame.node if rung.blame is not None else ""
    return {
        "model": Path(model).name,
        "node": node,
        "seed": seed,
        "right": blamed == node,
        "blamed": blamed,
        "builds": len(lines),
        "seconds": round(time.monotonic() - start, 2),
        "said": rung.evidence,
    }
