"""Baselines: digests and metrics of every tensor of a capture, kept per model, board, firmware and toolchain; what changed since."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any

from qverify.capture.reader import Capture, open_capture
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular, write_text
from qverify.printable import printable

SCHEMA = "qverify.baseline/1"
MOST_TEXT = 1 << 28
METRICS = {"max_abs": -1, "max_lsb": -1, "mismatched": -1, "rmse": -1, "cosine": 1, "sqnr_db": 1}  # which way is better
KEYS = ("model", "board", "firmware", "toolchain")


@dataclass(frozen=True, slots=True)
class BaselineChange:
    """direction: better, worse, other (another content), gone, new, not known."""

    frame: int
    pair: str
    tensor: str
    what: str
    before: str
    now: str
    direction: str


def save(path: str, capture: str, firmware: str, toolchain: str) -> tuple[dict[str, str], str]:
    """The capture's entry into the file, in the place of one with the same key; the key, and the verdict of its run."""
    held: dict[str, Any] = _read(path) if os.path.exists(path) else {"schema": SCHEMA, "entries": []}
    entry = _entry(capture, firmware, toolchain)
    key = {k: entry[k] for k in KEYS}
    held["entries"] = [e for e in held["entries"] if {k: e[k] for k in KEYS} != key] + [entry]
    write_text(json.dumps(held, indent=1, allow_nan=False) + "\n", path)
    return key, str(entry["verdict"])


def check(path: str, capture: str, firmware: str, toolchain: str) -> tuple[dict[str, str], list[BaselineChange], int]:
    """The entry it is held against (same model and board; firmware and toolchain nearest), what changed, tensors compared.
    firmware: "" for the system the board told.
    UsageError where there is no such entry, or nothing is common."""
    now = _entry(capture, firmware, toolchain)
    fitting = [e for e in _read(path)["entries"] if (e["model"], e["board"]) == (now["model"], now["board"])]
    if not fitting:
        raise UsageError(f"{path}: no baseline of this model and board; qverify baseline save {path} {capture}")
    before = max(fitting, key=lambda e: (e["firmware"] == now["firmware"], e["toolchain"] == toolchain))
    if before["inputs"] != now["inputs"]:
        raise UsageError(f"{path}: its baseline was run on other inputs; run on the same (--seed, -i)")
    try:
        changes, compared = _changes(before, now)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise BadFileError(f"{path}: its entry cannot be read: {type(error).__name__} {error}") from error
    if not compared:
        raise UsageError(f"{capture}: it has no tensor in common with the baseline; nothing was compared")
    return {k: before[k] for k in KEYS}, changes, compared


def _entry(folder: str, firmware: str, toolchain: str) -> dict[str, Any]:
    capture = open_capture(folder)
    if capture.incomplete:
        raise UsageError(f"{folder}: the capture is incomplete ({capture.incomplete}); no baseline comes of it")
    report = capture.report()
    models = {str(m["kind"]): str(m["sha256"]) for m in capture.models.values()}
    digests = dict[str, dict[str, str | None]]()
    for number, row in enumerate(capture.frames):
        gone = {label: r.missing for label, r in capture.recordings(number).items()}
        for side in row["sides"]:
            known = {
                n: None if n in gone[side["label"]] else _digest(pair, capture) for n, pair in side["tensors"].items()
            }
            digests[f"{row['frame']}/{side['label']}"] = known
    if not digests:
        raise UsageError(f"{folder}: no frame of it ran; no baseline comes of it")
    return {
        "model": models.get("quant.onnx") or models.get("model.bin") or "",
        "board": capture.board or "",
        "firmware": firmware or _system(capture),
        "toolchain": toolchain,
        "inputs": [str(i["sha256"]) for row in capture.frames for i in row["inputs"]],
        "digests": digests,
        "rows": _rows(report, folder),
        "verdict": str(report.get("verdict")),
        "unsteady": _unsteady(capture),
    }


def _system(capture: Capture) -> str:
    """Name and release of the board's system, as its agent told."""
    sides = [side for row in capture.frames for side in row["sides"] if side["side"] == "board"]
    return str(sides[0]["settings"].get("system", "")) if sides else ""


def _unsteady(capture: Capture) -> list[str]:
    """Tensors that --repeat saw change."""
    try:
        rows = [row for frame in capture.frames for row in (frame.get("repeat") or {}).get("unstable", [])]
        return sorted({str(row["tensor"]) for row in rows})
    except (LookupError, TypeError, AttributeError) as error:
        raise BadFileError(f"{capture.folder}: what --repeat found cannot be read: {error}") from error


def _digest(pair: list[Any], capture: Capture) -> str | None:
    """Announced by the side, or of the bytes that are kept; None where there is neither."""
    part, digest = pair
    known = part is not None and 0 <= part < len(capture.parts.parts)
    return str(digest) if digest is not None else capture.parts.parts[part].digest if known else None


def _rows(report: dict[str, Any], folder: str) -> dict[str, dict[str, Any]]:
    """`frame/a~b/tensor` to verdict and metrics."""
    try:
        return {
            f"{p['frame']}/{p['a']}~{p['b']}/{row['name']}": {k: row.get(k) for k in ("verdict", "bit_equal", *METRICS)}
            for p in report["pairs"]
            for row in p["tensors"]
        }
    except (KeyError, TypeError) as error:
        raise BadFileError(f"{folder}/report.json: not a report of qverify: {error}") from error


def _changes(before: dict[str, Any], now: dict[str, Any]) -> tuple[list[BaselineChange], int]:
    found, compared = list[BaselineChange](), 0
    for what, bad in (("verdict", "PASSED"), ("unsteady", [])):
        old, new = before.get(what, bad), now[what]
        if old != new:
            found.append(
                BaselineChange(0, "the whole run", "", what, str(old), str(new), "better" if new == bad else "worse")
            )
    for side in before["digests"].keys() & now["digests"].keys():
        old, new = before["digests"][side], now["digests"][side]
        frame, label = side.split("/", 1)
        for name in old.keys() & new.keys():
            if old[name] is None or new[name] is None:
                found.append(
                    BaselineChange(int(frame), label, name, "bytes", str(old[name]), str(new[name]), "not known")
                )
                continue
            compared += 1
            if old[name] != new[name]:
                found.append(BaselineChange(int(frame), label, name, "bytes", str(old[name]), str(new[name]), "other"))
        found += [
            BaselineChange(int(frame), label, n, "tensor", "there", "missing", "gone") for n in old.keys() - new.keys()
        ]
        found += [
            BaselineChange(int(frame), label, n, "tensor", "missing", "there", "new") for n in new.keys() - old.keys()
        ]
    for key in before["rows"].keys() & now["rows"].keys():
        compared += 1
        found += _of_row(key, before["rows"][key], now["rows"][key])
    for old, new, *said in ((before, now, "there", "missing", "gone"), (now, before, "missing", "there", "new")):
        for key in old["rows"].keys() - new["rows"].keys():
            frame, pair, tensor = key.split("/", 2)
            found.append(BaselineChange(int(frame), pair, tensor, "metrics", *said))
        for side in old["digests"].keys() - new["digests"].keys():
            frame, label = side.split("/", 1)
            found.append(BaselineChange(int(frame), label, "", "side", *said))
    return sorted(found, key=lambda c: (c.frame, c.pair, c.tensor, c.what)), compared


def _of_row(key: str, old: dict[str, Any], new: dict[str, Any]) -> list[BaselineChange]:
    frame, pair, tensor = key.split("/", 2)
    found = []
    if old["verdict"] != new["verdict"]:
        way = "better" if new["verdict"] == "PASSED" else "worse"
        found.append(BaselineChange(int(frame), pair, tensor, "verdict", str(old["verdict"]), str(new["verdict"]), way))
    if old["bit_equal"] != new["bit_equal"]:
        way = "better" if new["bit_equal"] is True else "worse"
        found.append(
            BaselineChange(int(frame), pair, tensor, "bit_equal", str(old["bit_equal"]), str(new["bit_equal"]), way)
        )
    for metric, better in METRICS.items():
        a, b = _number(old.get(metric)), _number(new.get(metric))
        if a is not None and b is not None and a != b:
            way = "better" if (b - a) * better > 0 else "worse"
            found.append(BaselineChange(int(frame), pair, tensor, metric, f"{a:g}", f"{b:g}", way))
    return found


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def _read(path: str) -> dict[str, Any]:
    held = _json(path)
    entries = held.get("entries")
    if not isinstance(entries, list) or held.get("schema") != SCHEMA:
        raise BadFileError(f"{path}: not a file of {SCHEMA}")
    if not all(isinstance(e, dict) and {*KEYS, "inputs", "digests", "rows"} <= e.keys() for e in entries):
        raise BadFileError(f"{path}: not a file of {SCHEMA}")
    return held


def _json(path: str) -> dict[str, Any]:
    try:
        held = json.loads(read_regular(path, MOST_TEXT, follow=True))
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path}: not JSON: {error}") from error
    if not isinstance(held, dict):
        raise BadFileError(f"{path}: not a JSON object")
    return held


def lines(changes: list[BaselineChange]) -> list[str]:
    return [
        f"frame {c.frame} {printable(c.pair)} {printable(c.tensor)}: {c.what} {c.before} -> {c.now} ({c.direction})"
        for c in changes
    ]
