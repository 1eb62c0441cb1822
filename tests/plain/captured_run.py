"""The report of a captured run of the example (fixture `captured`), of judging it again, and of an altered one."""

from __future__ import annotations

import json
from pathlib import Path

from qverify.cli.main import main

NODE = "relu2_QuantizeLinear_Output"


def report(path: Path) -> dict[str, object]:
    return json.loads(path.read_text())


def judged_again(folder: Path, *more: str) -> tuple[int, dict[str, object]]:
    out = folder.parent / "again.json"
    status = main(["replay", str(folder), "--json", str(out), *more])
    return status, report(out)


def changed(folder: Path, change) -> Path:
    """capture.json after change(its first frame, the whole)."""
    path = folder / "capture.json"
    held = json.loads(path.read_text())
    change(held["frames"][0], held)
    path.write_text(json.dumps(held))
    return folder
