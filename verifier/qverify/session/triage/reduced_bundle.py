"""Writes the files of a reduced part besides its models: the outputs of both sides, the report, and a README on how to
repeat the difference."""

from __future__ import annotations

import json
import os
import platform
import shlex
from pathlib import Path

from qverify import __version__
from qverify.files import writing
from qverify.plural import count
from qverify.report.report_json import to_json
from qverify.session.job import JobOutcome
from qverify.session.npz_file import write_npz
from qverify.session.request import Request

RUNTIME_KEYS = ("runtime", "command")  # options of a request that determine what runs on the board


def write_bundle(
    folder: str, paths: list[str], outcome: JobOutcome, request: Request, nodes: int, assumed: list[str]
) -> None:
    """Writes expected.npz, board.npz, report.json and README.md to the folder, which has the models and inputs.npz
    already. paths: the models. nodes: number of nodes of the part. assumed: names of inputs that the board does not
    show, for which the host's values are used."""
    assert outcome.evidence is not None
    sides = outcome.evidence.results.recordings
    for side, file in (("simulator", "expected.npz"), ("board", "board.npz")):
        if side in sides:
            tensors = sides[side].tensors
            write_npz(os.path.join(folder, file), {n: tensors[n] for n in outcome.finals if n in tensors})
    text = json.dumps(to_json(outcome.report), indent=1, allow_nan=False)
    for file, content in (
        ("report.json", text + "\n"),
        ("README.md", _readme(paths, outcome, request, nodes, assumed)),
    ):
        with writing(os.path.join(folder, file)):
            Path(folder, file).write_text(content, encoding="utf-8")


def _readme(paths: list[str], outcome: JobOutcome, request: Request, nodes: int, assumed: list[str]) -> str:
    values = {"runtime": request.reach.get("runtime"), **dict(request.runner)}
    chosen = {k: v for k, v in values.items() if v and k in RUNTIME_KEYS}
    options = [f"--{'runner' if k == 'command' else k} {shlex.quote(v)}" for k, v in chosen.items()]
    board = " ".join(["-b", shlex.quote(request.board or "local"), *options])
    names = ",".join(os.path.basename(p) for p in paths)
    blame = outcome.report.blame
    culprit = f"{blame.side} {blame.place}: {blame.why}" if blame is not None else "no single node is blamed"
    versions = [f"{s['name']}: {s['engine']} {s['version']} ({s['host']})" for s in outcome.report.sides]
    lines = [
        f"# {count(nodes, 'node', 'that differs', 'that differ')} on the board",
        "",
        f"    qverify -m {names} {board} -i inputs.npz -r True",
        "",
        f"Verdict: {outcome.report.verdict}. Blame: {culprit}",
        "",
        "- inputs.npz: the part's inputs; expected.npz: the simulator's outputs; board.npz: the board's",
        *([f"- the board does not show {', '.join(assumed)}: the host's values are used"] if assumed else []),
        "- report.json: the whole report (qverify.report/1)",
        "- without the board: `qverify compare expected.npz board.npz`",
        "",
        f"qverify {__version__}, Python {platform.python_version()}; " + "; ".join(versions),
    ]
    return "\n".join(lines) + "\n"
