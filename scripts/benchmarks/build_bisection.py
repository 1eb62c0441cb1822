"""Faults planted in a board that gives final outputs only: those that triage locates by --build-cmd alone. The runner is
onnxruntime with one tensor mirrored, the build command a copy, the board `local`; a fault that no final output shows under
the gate is drawn again."""

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
MOST_DRAWS = 10  # for each fault


def main(words: list[str]) -> int:
    """Prints how many of the planted faults were located; exit status 1 where one was not."""
    options = argparse.ArgumentParser(prog="scripts/bench builds", description=__doc__)
    options.add_argument("--seed", type=int, default=1, help="of the faults and of the inputs")
    options.add_argument("--count", type=int, default=50, help="faults of each network")
    options.add_argument("--gate", default="cosine:0.999", help="of reference ~ board")
    options.add_argument("--models", nargs="+", default=[str(p) for p in (EXAMPLE, REAL) if p.exists()], metavar="FILE")
    options.add_argument("--json", metavar="FILE", help="write the rows there")
    given = options.parse_args(words)
    rows = [row for model in given.models for row in plant(model, given.count, given.seed, given.gate)]
    for model in given.models:
        own = [row for row in rows if row["model"] == Path(model).name]
        right, seconds = sum(row["right"] for row in own), [row["seconds"] for row in own]
        builds = max((row["builds"] for row in own), default=0)
        print(
            f"{Path(model).name}: {right} of {len(own)} located, at most {builds} builds, {sum(seconds) / max(1, len(own)):.1f} s each"
        )
    if given.json:
        Path(given.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if rows and all(row["right"] for row in rows) else 1


def plant(model: str, count: int, seed: int, gate: str) -> list[dict[str, Any]]:
    """Returns a row for each fault of one network that its final outputs show."""
    from qverify.onnx_model.cut_written import WrittenModel
    from qverify.session.models import open_models

    opened = open_models([model])
    assert opened.original is not None
    made = WrittenModel(opened.original, opened.graph.tensors).made
    places = [name for name in opened.graph.observable() if name in made]
    drawn, rows = random.Random(seed), list[dict[str, Any]]()
    for _ in range(count * MOST_DRAWS):
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
    """Returns the row of one fault; None where the board passes."""
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
