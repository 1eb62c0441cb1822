"""Saves baselines and compares captures with them. A baseline is the digests and metrics of every tensor of a capture,
stored by model, board, firmware and toolchain."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

from qverify.capture.reader import Capture, open_capture
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular, write_text
from qverify.printable import printable
from qverify.report.compare_reports import BETTER_SIGN

SCHEMA = "qverify.baseline/1"
MAX_BYTES = 1 << 28  # of a file of baselines
METRICS = {name: BETTER_SIGN[name] for name in ("max_abs", "max_lsb", "mismatched", "rmse", "cosine", "sqnr_db")}
_NOWHERE = ["nowhere", False, 0]
KEYS = ("model", "board", "firmware", "toolchain")


@dataclass(frozen=True, slots=True)
class BaselineChange:
    """One difference between a baseline and a newer run. what: the property that differs. direction: better, worse,
    other (the bytes differ), gone, new or not known."""

    frame: int
    pair: str
    tensor: str
    what: str
    before: str
    now: str
    direction: str


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """The comparison of a capture with a baseline. key: key of the baseline's entry. compared: number of compared
    tensors and rows of metrics. verdict_before: verdict of the baseline's run. verdict_now: verdict of the captured
    run; both are only stated here."""

    key: dict[str, str]
    changes: list[BaselineChange]
    compared: int
    verdict_before: str
    verdict_now: str


def save(path: str, capture: str, firmware: str, toolchain: str) -> tuple[dict[str, str], str]:
    """Adds the capture's entry to the file, in place of an entry with the same key. Returns the key, and the verdict of
    the captured run."""
    content: dict[str, Any] = _read(path) if os.path.exists(path) else {"schema": SCHEMA, "entries": []}
    entry = _make_entry(capture, firmware, toolchain)
    key = {k: entry[k] for k in KEYS}
    content["entries"] = [e for e in content["entries"] if {k: e[k] for k in KEYS} != key] + [entry]
    write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", path)
    return key, str(entry["verdict"])


def check(path: str, capture: str, firmware: str, toolchain: str) -> BaselineComparison:
    """Compares the capture with the file's entry of the same model and board; of several, the one with the same
    firmware is preferred, then the one with the same toolchain. firmware: "" for the system that the board reported.
    Raises UsageError if there is no such entry, its inputs were others, or no tensor is in both."""
    now = _make_entry(capture, firmware, toolchain)
    candidates = [e for e in _read(path)["entries"] if (e["model"], e["board"]) == (now["model"], now["board"])]
    if not candidates:
        raise UsageError(f"{path}: no baseline of this model and board; qverify baseline save {path} {capture}")
    before = max(candidates, key=lambda e: (e["firmware"] == now["firmware"], e["toolchain"] == toolchain))
    if before["inputs"] != now["inputs"]:
        raise UsageError(f"{path}: its baseline was run on other inputs; run on the same inputs (--seed, -i)")
    try:
        changes, compared = _list_changes(before, now)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise BadFileError(f"{path}: its entry cannot be read: {type(error).__name__} {error}") from error
    if not compared:
        raise UsageError(f"{capture}: it has no tensor in common with the baseline; nothing was compared")
    key = {k: before[k] for k in KEYS}
    return BaselineComparison(key, changes, compared, str(before.get("verdict", "not known")), now["verdict"])


def _make_entry(folder: str, firmware: str, toolchain: str) -> dict[str, Any]:
    """Returns the entry of a capture. Raises UsageError if the capture is incomplete or no frame of it ran."""
    capture = open_capture(folder)
    if capture.incomplete:
        raise UsageError(f"{folder}: the capture is incomplete ({capture.incomplete}); it cannot be a baseline")
    report = capture.report()
    models = {str(m["kind"]): str(m["sha256"]) for m in capture.models.values()}
    digests = dict[str, dict[str, str | None]]()
    for number, row in enumerate(capture.frames):
        missing = {label: r.missing for label, r in capture.recordings(number).items()}
        for side in row["sides"]:
            values = {
                n: None if n in missing[side["label"]] else _find_digest(pair, capture)
                for n, pair in side["tensors"].items()
            }
            digests[f"{row['frame']}/{side['label']}"] = values
    if not digests:
        raise UsageError(f"{folder}: no frame of it ran; it cannot be a baseline")
    return {
        "model": models.get("quant.onnx") or models.get("model.bin") or "",
        "board": capture.board or "",
        "firmware": firmware or _system(capture),
        "toolchain": toolchain,
        "inputs": [str(i["sha256"]) for row in capture.frames for i in row["inputs"]],
        "digests": digests,
        "rows": _rows(report, folder),
        "placement": _placement(capture),
        "verdict": str(report.get("verdict")),
        "unsteady": _list_unsteady(capture),
    }


def _placement(capture: Capture) -> dict[str, dict[str, list[Any]]]:
    """Returns where each node of a side ran (device, whether it fell back, how many nodes it stands for), by `frame/side`, for
    the sides whose engine says so."""
    places = {}
    for number, row in enumerate(capture.frames):
        for label, side in capture.recordings(number).items():
            if side.placement:
                nodes = {p.node or f"({p.op} on {p.on})": [p.on, p.fallback, p.nodes] for p in side.placement}
                places[f"{row['frame']}/{label}"] = nodes
    return places


def _system(capture: Capture) -> str:
    """Returns the name and release of the board's operating system as its agent reported them, or ""."""
    sides = [side for row in capture.frames for side in row["sides"] if side["side"] == "board"]
    return str(sides[0]["settings"].get("system", "")) if sides else ""


def _list_unsteady(capture: Capture) -> list[str]:
    """Returns the names of the tensors that changed between the runs of --repeat."""
    try:
        rows = [row for frame in capture.frames for row in (frame.get("repeat") or {}).get("unstable", [])]
        return sorted({str(row["tensor"]) for row in rows})
    except (LookupError, TypeError, AttributeError) as error:
        raise BadFileError(f"{capture.folder}: its results of --repeat cannot be read: {error}") from error


def _find_digest(pair: list[Any], capture: Capture) -> str | None:
    """Returns the digest that the side reported; otherwise that of the stored bytes; None without either. pair: [part,
    digest] of a tensor in capture.json."""
    part, digest = pair
    is_stored = part is not None and 0 <= part < len(capture.parts.parts)
    return str(digest) if digest is not None else capture.parts.parts[part].digest if is_stored else None


def _rows(report: dict[str, Any], folder: str) -> dict[str, dict[str, Any]]:
    """Returns verdict and metrics of each row of a report, by `frame/a~b/tensor`."""
    try:
        return {
            f"{p['frame']}/{p['a']}~{p['b']}/{row['name']}": {k: row.get(k) for k in ("verdict", "bit_equal", *METRICS)}
            for p in report["pairs"]
            for row in p["tensors"]
        }
    except (KeyError, TypeError) as error:
        raise BadFileError(f"{folder}/report.json: not a report of qverify: {error}") from error


def _list_changes(before: dict[str, Any], now: dict[str, Any]) -> tuple[list[BaselineChange], int]:
    """Returns the differences of two entries, and the number of tensors and rows that were compared."""
    changes, compared = list[BaselineChange](), 0
    for what, good in (("verdict", "PASSED"), ("unsteady", [])):
        old, new = before.get(what, good), now[what]
        if old != new:
            changes.append(
                BaselineChange(0, "the whole run", "", what, str(old), str(new), "better" if new == good else "worse")
            )
    for side in before["digests"].keys() & now["digests"].keys():
        old, new = before["digests"][side], now["digests"][side]
        frame, label = side.split("/", 1)
        for name in old.keys() & new.keys():
            if old[name] is None or new[name] is None:
                changes.append(
                    BaselineChange(int(frame), label, name, "bytes", str(old[name]), str(new[name]), "not known")
                )
                continue
            compared += 1
            if old[name] != new[name]:
                changes.append(
                    BaselineChange(int(frame), label, name, "bytes", str(old[name]), str(new[name]), "other")
                )
        changes += [
            BaselineChange(int(frame), label, n, "tensor", "there", "missing", "gone") for n in old.keys() - new.keys()
        ]
        changes += [
            BaselineChange(int(frame), label, n, "tensor", "missing", "there", "new") for n in new.keys() - old.keys()
        ]
    changes += _list_moved_nodes(before.get("placement", {}), now["placement"])
    for key in before["rows"].keys() & now["rows"].keys():
        compared += 1
        changes += _row_changes(key, before["rows"][key], now["rows"][key])
    for old, new, *states in ((before, now, "there", "missing", "gone"), (now, before, "missing", "there", "new")):
        for key in old["rows"].keys() - new["rows"].keys():
            frame, pair, tensor = key.split("/", 2)
            changes.append(BaselineChange(int(frame), pair, tensor, "metrics", *states))
        for side in old["digests"].keys() - new["digests"].keys():
            frame, label = side.split("/", 1)
            changes.append(BaselineChange(int(frame), label, "", "side", *states))
    return sorted(changes, key=lambda c: (c.frame, c.pair, c.tensor, c.what)), compared


def _list_moved_nodes(before: dict[str, Any], now: dict[str, Any]) -> list[BaselineChange]:
    """Returns the nodes that ran elsewhere than in the baseline. One that fell back now, and not before, is worse. A side that no
    longer says where its nodes ran has one change; a baseline without such a side has none."""
    changes = []
    for side, old in before.items():
        frame, label = side.split("/", 1)
        if (new := now.get(side)) is None:
            changes.append(BaselineChange(int(frame), label, "", "placement", "known", "not said", "not known"))
            continue
        for node in dict.fromkeys([*old, *new]):
            (was_on, had_fallen, nodes), (is_on, falls, more) = old.get(node, _NOWHERE), new.get(node, _NOWHERE)
            if (was_on, had_fallen) == (is_on, falls) and (more <= nodes or not falls):
                continue
            is_new, is_gone = falls and (not had_fallen or more > nodes), had_fallen and not falls
            was, now_on = (f"{on}{f' ({n} nodes)' if n > 1 else ''}" for on, n in ((was_on, nodes), (is_on, more)))
            what = "fallback" if is_new or is_gone else "placement"
            way = "worse" if is_new else "better" if is_gone else "other"
            changes.append(BaselineChange(int(frame), label, str(node), what, was, now_on, way))
    return changes


def _row_changes(key: str, old: dict[str, Any], new: dict[str, Any]) -> list[BaselineChange]:
    """Returns the differences of verdict and metrics between two rows of one key (as _rows makes it)."""
    frame, pair, tensor = key.split("/", 2)
    changes = []
    if old["verdict"] != new["verdict"]:
        way = "better" if new["verdict"] == "PASSED" else "worse"
        changes.append(
            BaselineChange(int(frame), pair, tensor, "verdict", str(old["verdict"]), str(new["verdict"]), way)
        )
    if old["bit_equal"] != new["bit_equal"]:
        way = "better" if new["bit_equal"] is True else "worse"
        changes.append(
            BaselineChange(int(frame), pair, tensor, "bit_equal", str(old["bit_equal"]), str(new["bit_equal"]), way)
        )
    for metric, better in METRICS.items():
        a, b = _number(old.get(metric)), _number(new.get(metric))
        if a is not None and b is not None and a != b:
            way = "better" if (b - a) * better > 0 else "worse"
            changes.append(BaselineChange(int(frame), pair, tensor, metric, f"{a:g}", f"{b:g}", way))
    return changes


def _number(value: Any) -> float | None:
    """Returns the value as a number; None if it is not a number, or NaN."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return None if math.isnan(number) else number


def _read(path: str) -> dict[str, Any]:
    """Returns the content of a file of baselines. Raises BadFileError for any other file, and for two entries with the
    same key."""
    content = _read_json(path)
    entries = content.get("entries")
    if not isinstance(entries, list) or content.get("schema") != SCHEMA:
        raise BadFileError(f"{path}: not a file of {SCHEMA}")
    if not all(isinstance(e, dict) and {*KEYS, "inputs", "digests", "rows"} <= e.keys() for e in entries):
        raise BadFileError(f"{path}: not a file of {SCHEMA}")
    keys = Counter(tuple(str(e[k]) for k in KEYS) for e in entries)
    if repeated := [key for key, times in keys.items() if times > 1]:
        model, board, firmware, _ = repeated[0]
        raise BadFileError(
            f"{path}: two entries of model {model[:12]} on {printable(board)}, firmware {printable(firmware)}; remove one"
        )
    return content


def _read_json(path: str) -> dict[str, Any]:
    try:
        content = json.loads(read_regular(path, MAX_BYTES, follow=True))
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict):
        raise BadFileError(f"{path}: not a JSON object")
    return content


def lines(changes: list[BaselineChange]) -> list[str]:
    """Returns one line of text per change."""
    return [
        f"frame {c.frame} {printable(c.pair)} {printable(c.tensor)}: {c.what} {c.before} -> {c.now} ({c.direction})"
        for c in changes
    ]
