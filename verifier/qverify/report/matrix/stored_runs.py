"""Makes StoredRuns from a report: one for each of its boards, with the facts that rows and columns are made of."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qverify.plural import count
from qverify.report.document import Pair, ReportDocument, Verdict, worst
from qverify.report.matrix.document import StoredRun, WorstTensor
from qverify.report.matrix.skim import SkimmedReport, SkimmedRows
from qverify.report.stack import describe_stack
from qverify.report.stated_facts import usable_facts
from qverify.report.weakenings import list_caveats

SHOWN_HASH = 12  # digits
MAX_NAMED_INPUTS = 3
DEVICE_SIDES = ("board", "dump", "B")
NUMBERS = ("max_abs", "max_lsb", "cosine", "sqnr_db", "mismatched")
NOT_FINITE = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
Side = Mapping[str, Any]


def stored_runs(
    skimmed: SkimmedReport, source: str, labels: Mapping[str, str] | None = None, link: str = ""
) -> Iterator[StoredRun]:
    """Yields a run for each board of a report, or one without a board. source: where it is from. labels: further facts about it,
    which its own do not override. link: address at which it is shown, or ""."""
    report = skimmed.report
    groups = _split_sides(report.sides)
    boards: list[str | None] = list(report.boards) if len(report.boards) > 1 else [None]
    for board in boards:
        chosen = [at for at, pair in enumerate(report.pairs) if board is None or pair.board in (None, board)]
        sides = next((group for group in groups if board and _host_of(group) == board), groups[0] if groups else [])
        part = replace(
            report,
            pairs=[report.pairs[at] for at in chosen],
            sides=[dict(side) for side in sides],
            boards=report.boards if board is None else [board],
            tasks=[task for task in report.tasks if board is None or task.board in (None, board)],
        )
        rows, verdict = [skimmed.pairs[at] for at in chosen], _verdict_of(report, part)
        yield _run(part, rows, verdict, source, labels or {}, link, board is not None)


def _split_sides(sides: Sequence[Side]) -> list[list[Side]]:
    """Returns the sides of each board: a name that comes again begins the next board's."""
    groups: list[list[Side]] = []
    for side in sides:
        if not groups or any(one.get("name") == side.get("name") for one in groups[-1]):
            groups.append([])
        groups[-1].append(side)
    return groups


def _host_of(sides: Sequence[Side]) -> str:
    return next((str(side.get("host", "")) for side in sides if side.get("name") == "board"), "")


def _verdict_of(report: ReportDocument, part: ReportDocument) -> Verdict:
    """Returns the verdict of one board of a report. If the report's verdict is worse than that of all its pairs, every board has
    it."""
    if part.boards == report.boards or report.verdict != worst([pair.verdict for pair in report.pairs]):
        return report.verdict
    return worst([pair.verdict for pair in part.pairs])


def _run(
    report: ReportDocument,
    rows: Sequence[SkimmedRows],
    verdict: Verdict,
    source: str,
    labels: Mapping[str, str],
    link: str,
    several: bool,
) -> StoredRun:
    device = _device(report.sides)
    compared = _compared(report.pairs)
    culprit = next((pair for pair in report.pairs if pair.verdict == verdict != "PASSED"), None)
    stack = describe_stack(report, measured=False)
    stack |= {f"fact {key}": value for key, value in labels.items()}
    return StoredRun(
        source,
        report.date,
        _facts(report, device, labels),
        {sys.intern(name): sys.intern(value) for name, value in stack.items()},
        verdict,
        "" if culprit is None else f"{culprit.a} ~ {culprit.b}: {culprit.why or culprit.cause or culprit.verdict}",
        _blame_of(report, culprit, several),
        bool(compared) and all(report.pairs[at].bit_equal for at in compared),
        _worst(report.pairs, rows, compared),
        report.tasks,
        _seconds(report, device),
        list_caveats(report),
        link,
        describe_gates(report, compared),
    )


def _blame_of(report: ReportDocument, culprit: Pair | None, several: bool) -> str:
    """Returns the side and the node to blame, or the first node that differs; "" without one. several: the report is of several
    boards, and a blame does not say of which."""
    if report.blame is not None and not several and culprit is not None:
        return f"{report.blame.side} at {report.blame.node}"
    first = culprit.first_divergence if culprit is not None else None
    return f"from {first.node}" if first is not None else ""


def _device(sides: Sequence[Side]) -> Side:
    """Returns the side that is not the host's own: the board, or what is in its place; {} without one."""
    return next((side for name in DEVICE_SIDES for side in sides if side.get("name") == name), {})


def _compared(pairs: Sequence[Pair]) -> list[int]:
    """Returns the places of the pairs whose numbers a cell shows: reference and board of every frame, or else the pair that
    comes last."""
    for a, b in (("reference", "board"), ("simulator", "board")):
        if found := [at for at, pair in enumerate(pairs) if (pair.a, pair.b) == (a, b)]:
            return found
    last = [(pair.a, pair.b) for pair in pairs][-1:]
    return [at for at, pair in enumerate(pairs) if [(pair.a, pair.b)] == last]


def describe_gates(report: ReportDocument, places: Sequence[int] = ()) -> str:
    """Returns the criteria of the pairs in words, each once. places: of the pairs; () for all."""
    pairs = [report.pairs[at] for at in places] or report.pairs
    return "; ".join(dict.fromkeys(pair.gate for pair in pairs if pair.gate))


def _worst(pairs: Sequence[Pair], rows: Sequence[SkimmedRows], compared: Sequence[int]) -> WorstTensor | None:
    read = {at: rows[at]() for at in compared if not pairs[at].bit_equal}
    at = min(read, key=lambda at: read[at].order, default=None)
    if at is None or (row := read[at].worst) is None:
        return None
    pair = pairs[at]
    numbers: dict[str, Any] = {name: _number(row.get(name)) for name in NUMBERS}
    return WorstTensor(
        str(row.get("name", "")),
        str(row.get("node", "")),
        str(row.get("op", "")),
        f"{pair.a}~{pair.b}",
        row["verdict"] if row.get("verdict") in ("PASSED", "FAILED") else "INCONCLUSIVE",
        elements=elements if isinstance(elements := row.get("elements"), int) else 0,
        tensors=sum(pairs[one].coverage.compared for one in compared),
        differing=sum(one.differing for one in read.values()),
        **numbers,
    )


def _number(value: Any) -> float | int | None:
    if isinstance(value, str):
        return NOT_FINITE.get(value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _seconds(report: ReportDocument, device: Side) -> float | None:
    nodes = device.get("node_seconds")
    if isinstance(nodes, dict) and nodes:
        return float(sum(nodes.values()))
    seconds = device.get("seconds", report.timings.get("total"))
    return float(seconds) if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else None


def _facts(report: ReportDocument, device: Side, labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the facts by name: what was stated about the run, and what it shows itself, which comes first."""
    stated: dict[str, str] = {}
    for values in (device.get("ledger"), device.get("tags")):
        stated |= dict(usable_facts(values)) if isinstance(values, dict) else {}
    stated |= dict(usable_facts(labels)) | dict(usable_facts(report.facts))
    settings = device.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    sides = {str(side.get("name")): side for side in report.sides}
    simulator = sides.get("simulator", {}).get("settings")
    own = {
        "model": _model(report),
        "model_sha256": " ".join(str(m.get("sha256", ""))[:SHOWN_HASH] for m in report.models[:2]),
        "inputs": _inputs(report),
        "inputs_sha256": _hash_of(report.inputs),
        "board": str(device.get("inventory") or (report.boards[0] if report.boards else "")),
        "runtime": f"{device.get('engine', '')} {device.get('version', '')}".strip(),
        "arithmetic": str(simulator.get("arithmetic") or "") if isinstance(simulator, dict) else "",
        "qverify": report.qverify,
        "onnxruntime": str(sides.get("reference", {}).get("version", "")),
        "host": str(sides.get("reference", sides.get("simulator", {})).get("host", "")),
        "system": str(settings.get("system") or ""),
        "arch": str(settings.get("arch") or ""),
        "date": report.date,
    }
    return {sys.intern(name): sys.intern(value) for name, value in (stated | own).items()}


def _model(report: ReportDocument) -> str:
    """Returns the file name of the network: the quantized one, or else the first."""
    named = next((row for row in report.models if row.get("kind") == "quant.onnx"), None)
    row = named or (report.models[0] if report.models else {})
    return os.path.basename(str(row.get("path", "")).rstrip("/\\"))


def _inputs(report: ReportDocument) -> str:
    """Returns the names of the inputs' files, or the seed of random ones; of many frames their number and folder."""
    if len(report.frames) > 1:
        folder = os.path.basename(os.path.dirname(str(report.frames[0].get("source", ""))))
        return f"{count(len(report.frames), 'frame')}{f' of {folder}' if folder else ''}"
    seeds = sorted({row["seed"] for row in report.inputs if isinstance(row.get("seed"), int)})
    names = list(dict.fromkeys(os.path.basename(str(row.get("source", ""))) for row in report.inputs))
    if seeds and set(names) <= {"random"}:
        return f"random, seed {', '.join(map(str, seeds))}"
    more = f" and {len(names) - MAX_NAMED_INPUTS} more" if len(names) > MAX_NAMED_INPUTS else ""
    return ", ".join(names[:MAX_NAMED_INPUTS]) + more


def _hash_of(inputs: Sequence[Side]) -> str:
    """Returns the first digits of the hash of one input, or of the hashes of several."""
    hashes = [str(row.get("sha256", "")) for row in inputs]
    whole = hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest() if hashes else ""
    return whole[:SHOWN_HASH]
