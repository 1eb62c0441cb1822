"""Compiles and verifies every file of a folder with qverify and counts the outcomes. QV: the command, if it is another."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import onnx

from .networks import half_of

DEADLINE_S = 60.0
VERDICTS = {0: "PASSED", 1: "FAILED", 3: "INCONCLUSIVE"}  # by exit status; 2 is a refusal


@dataclass
class Answer:
    """The end of one process. status: None where it did not end in time. text: both of its streams."""

    status: int | None
    text: str
    seconds: float

    @property
    def crashed(self) -> bool:
        return "Traceback (most recent call last)" in self.text or (self.status is not None and self.status < 0)


@dataclass
class Row:
    """The outcome of one file."""

    file: str
    network: str
    style: str
    half: str
    outcome: str = ""
    label: str = ""
    reasons: list[str] = field(default_factory=list)
    compile_s: float = 0.0
    verify_s: float = 0.0


def ask(command: list[str], deadline_s: float) -> Answer:
    """Runs a command; the status is None when it did not end in time."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=deadline_s, stdin=subprocess.DEVNULL
        )
        return Answer(done.returncode, done.stdout + done.stderr, time.monotonic() - started)
    except subprocess.TimeoutExpired as late:
        text = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else ""
        return Answer(None, text, time.monotonic() - started)


def shapes(model: Path, inputs: Path) -> list[str]:
    """--shape options for inputs whose dims are symbolic, from the shapes of the input set."""
    values = np.load(inputs)
    found = []
    for value in onnx.load(model, load_external_data=False).graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in values and any(not dim.HasField("dim_value") for dim in dims):
            found += ["--shape", f"{value.name}={','.join(str(size) for size in values[value.name].shape)}"]
    return found


def operator_in(line: str, operators: set[str]) -> str:
    """The operator that a message speaks of: one in brackets, else the first word that is one of the file's."""
    words = [*re.findall(r"\((\w+)\)", line), *re.findall(r"[A-Za-z0-9]+", line)]
    return next((word for word in words if word in operators), "")


def reasons(text: str, operators: set[str]) -> list[str]:
    """The first lines of a refusal, each led by its operator, with names of nodes and numbers left out."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found: list[str] = []
    for line in lines:
        operator = operator_in(line, operators)
        line = line.split(f"({operator}): ")[-1] if operator else line
        message = re.sub(r"'[^']*'|\"[^\"]*\"|\S*/\S+|\b\d+\b", "_", line)[:110]
        reason = f"{operator or 'file'}: {message}"
        if reason not in found:
            found.append(reason)
    named = [reason for reason in found if not reason.startswith("file: ")]
    return (named or found or ["file: no message"])[:3]


def judge(model: Path, qverify: list[str], deadline_s: float) -> Row:
    """Compiles and verifies one file."""
    network, style, _ = model.name.split(".", 2)
    inputs = model.with_name(f"{network}.npz")
    row = Row(model.name, network, style, half_of(network))
    operators = {node.op_type for node in onnx.load(model, load_external_data=False).graph.node}
    extra = shapes(model, inputs)
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "model.bin"
        first = ask([*qverify, "compile", str(model), "-o", str(compiled), *extra], deadline_s)
        row.compile_s = round(first.seconds, 2)
        if first.crashed or first.status is None:
            row.outcome = "traceback" if first.crashed else "late"
            row.reasons = [f"compile: {line}" for line in first.text.strip().splitlines()[-1:]]
            return row
        if first.status != 0 or not compiled.exists():
            row.outcome, row.reasons = "refused", reasons(first.text, operators)
            return row
        command = [*qverify, "-m", f"{model},{compiled}", "-b", "local", "-s", "True", "-r", "True", "-i", str(inputs)]
        second = ask([*command, *extra], deadline_s)
    row.verify_s = round(second.seconds, 2)
    word = VERDICTS.get(second.status, "") if second.status is not None else ""
    row.label = "host" if re.search(r"computed on the host", second.text) else ""
    if second.crashed or second.status is None:
        row.outcome = "traceback" if second.crashed else "late"
        row.reasons = [f"verify: {line}" for line in second.text.strip().splitlines()[-1:]]
    elif word:
        row.outcome = word
        row.reasons = [] if word == "PASSED" else [f"verify: {line.strip()}" for line in lines_with(word, second.text)]
    else:
        row.outcome, row.reasons = "refused", [f"verify: {text}" for text in reasons(second.text, operators)]
    return row


def lines_with(word: str, text: str) -> list[str]:
    return [line[:160] for line in text.splitlines() if word in line][:2]


def table(rows: list[Row], key: str) -> list[str]:
    """Outcomes by network or style, one line each."""
    columns = ["PASSED", "FAILED", "INCONCLUSIVE", "refused", "traceback", "late"]
    lines = [f"{key:24} {'files':>6} {'compiled':>9} " + " ".join(f"{column:>12}" for column in columns)]
    for name in [*dict.fromkeys(getattr(row, key) for row in rows), "all"]:
        chosen = [row for row in rows if name in ("all", getattr(row, key))]
        counts = Counter(row.outcome for row in chosen)
        compiled = sum(row.verify_s > 0 for row in chosen)
        lines.append(
            f"{name:24} {len(chosen):6} {compiled:9} " + " ".join(f"{counts[column] or '':>12}" for column in columns)
        )
    return lines


def report(rows: list[Row]) -> str:
    """The text: two tables, then the first reasons of refusals grouped by operator, then what went wrong."""
    lines = [*table(rows, "network"), "", *table(rows, "style"), "", "first reasons of refusals, files each:"]
    refused = [row for row in rows if row.outcome == "refused"]
    groups = Counter(row.reasons[0].removeprefix("verify: ").split(":")[0] for row in refused)
    for operator, count in groups.most_common():
        lines.append(f"  {count:5}  {operator}")
        messages = Counter(
            row.reasons[0] for row in refused if row.reasons[0].removeprefix("verify: ").split(":")[0] == operator
        )
        lines += [f"         {number:5}  {message}" for message, number in messages.most_common(4)]
    wrong = [row for row in rows if row.outcome not in ("PASSED", "refused")]
    lines += ["", "neither PASSED nor refused:"] if wrong else []
    lines += [f"  {row.outcome:12} {row.file}: {' | '.join(row.reasons)}" for row in wrong]
    hosted = sum(bool(row.label) for row in rows if row.outcome == "PASSED")
    seconds = sum(row.compile_s + row.verify_s for row in rows)
    slowest = max(rows, key=lambda row: row.compile_s + row.verify_s)
    lines += ["", f"PASSED with a part computed on the host: {hosted}"]
    lines += [f"{seconds:.0f} s in all; slowest {slowest.file}: {slowest.compile_s} s + {slowest.verify_s} s"]
    return "\n".join(lines)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that run() reads."""
    parser.add_argument("--half", choices=["seen", "unseen"], help="whether the operators were written with it in view")
    parser.add_argument("--network", action="append", help="only this one; may be repeated")
    parser.add_argument("--style", action="append", help="only this one; may be repeated")
    parser.add_argument("--every", type=int, default=1, help="only every Nth file")
    parser.add_argument("--jobs", type=int, default=1, help="files at a time")
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, help="seconds for each process")
    parser.add_argument("--json", type=Path, help="also write the rows there")


def run(folder: Path, options: argparse.Namespace) -> int:
    """Verifies the folder's files that the options choose; 1 where one is neither PASSED nor refused, 2 where none is chosen."""
    qverify = shlex.split(os.environ.get("QV", f"{shlex.quote(sys.executable)} -m qverify"))
    files = []
    for path in sorted(folder.glob("*.onnx")):
        network, style, _ = path.name.split(".", 2)
        if options.half not in (None, half_of(network)):
            continue
        if network in (options.network or [network]) and style in (options.style or [style]):
            files.append(path)
    files = files[:: options.every]
    if not files:
        print(f"scripts/bench breadth: no file of that choice in {folder}", file=sys.stderr)
        return 2
    rows = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda path: judge(path, qverify, options.deadline), files):
            rows.append(row)
            print(f"{row.outcome:12} {row.file}  {' | '.join(row.reasons[:1])}", file=sys.stderr, flush=True)
    print(report(rows))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return int(any(row.outcome not in ("PASSED", "refused") for row in rows))
