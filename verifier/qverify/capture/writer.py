"""Writes a capture during a run (CAPTURE.md)."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from qverify import __version__
from qverify.errors import UsageError
from qverify.files import check_folder_writable, write_bytes, write_text
from qverify.report.clock import utc_text
from qverify.report.document import plain
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording, Untapped
from qverify.tensors.spec import TensorSpec

SCHEMA = "qverify.capture/1"
Pull = Callable[[list[str]], Mapping[str, Array]]


def check_capture_folder(folder: str) -> None:
    """Raises UsageError if a capture could not be created: the folder is not empty, or cannot be written."""
    try:
        is_taken = os.path.lexists(folder) and (not os.path.isdir(folder) or bool(os.listdir(folder)))
    except OSError as error:
        raise UsageError(f"--capture {folder}: cannot be written: {error.strerror}") from error
    if is_taken:
        raise UsageError(f"--capture {folder}: exists already and is not empty; name a folder that does not")
    try:
        check_folder_writable(folder)
    except UsageError as error:
        raise UsageError(f"--capture {error}") from error


class CaptureWriter:
    """Writes one capture folder. Once the folder exists, errors of writing (such as a full disk) raise nothing: the
    capture is marked incomplete.

    why: why the capture is incomplete, "" so far."""

    def __init__(self, folder: str, command: Mapping[str, Any]):
        """Creates the folder. command: the options of the run. Raises UsageError if the folder cannot be created or is
        not empty."""
        from qverify.capture.parts import PartWriter

        self.folder, self.why, self._closed = folder, "", False
        self._manifest: dict[str, Any] = {
            "schema": SCHEMA,
            "qverify": __version__,
            "created": utc_text(),
            "command": dict(command),
            "models": [],
            "specs": {},
            "frames": [],
        }
        self._created_folder = not os.path.isdir(folder)
        check_capture_folder(folder)
        try:
            os.makedirs(os.path.join(folder, "models"))
            self._parts = PartWriter(os.path.join(folder, "parts.zst"))
        except OSError as error:
            raise UsageError(f"--capture {folder}: cannot be written: {error.strerror}") from error

    def add_model(self, file: str, path: str, kind: str, sha256: str, data: bytes) -> None:
        """Adds a model. file: its name in the folder `models`. path: its name as the user gave it."""
        row = {"file": file, "path": path, "kind": kind, "sha256": sha256, "bytes": len(data)}
        if self._try(lambda: write_bytes(data, os.path.join(self.folder, "models", file))):
            self._manifest["models"].append(row)

    def add_frame(
        self, number: int, source: str, prepared: PreparedInputs, sides: Mapping[str, Recording], pull: Pull | None
    ) -> None:
        """Adds a frame. sides: the recordings, by label. pull: fetches tensors of the board whose bytes no side has;
        None if they cannot be fetched."""
        inputs = [
            {"name": i.spec.name, "part": self._part(i.data), "sha256": i.sha256, "source": i.source, "seed": i.seed}
            for i in prepared.inputs
        ]
        self._manifest["specs"] |= {i.spec.name: _spec(i.spec) for i in prepared.inputs}
        rows = [self._side(label, r, pull if r.side == "board" else None) for label, r in sides.items()]
        self._manifest["frames"].append({"frame": number, "source": source, "inputs": inputs, "sides": rows})

    def add_not_run(self, number: int, source: str, why: str, board_lost: bool = False) -> None:
        """Adds a frame that did not run. board_lost: because the board had been lost before; otherwise it could not be
        prepared."""
        row = {"frame": number, "source": source, "inputs": [], "sides": [], "why": why}
        self._manifest["frames"].append({**row, "board_lost": True} if board_lost else row)

    def add_repeat(self, outcome: Mapping[str, Any]) -> None:
        """Adds the results of --repeat to the last frame (Report.repeat)."""
        self._manifest["frames"][-1]["repeat"] = dict(outcome)

    def add_other_inputs(self, outcome: Mapping[str, Any]) -> None:
        """Adds the results of --paranoid to the last frame (session/other_inputs.py)."""
        self._manifest["frames"][-1]["other_inputs"] = dict(outcome)

    def add_experiments(self, rows: list[dict[str, Any]]) -> None:
        """Adds the experiments of triage to the last frame (session/triage/captured_experiments.py)."""
        self._manifest["frames"][-1]["experiments"] = rows

    def _side(self, label: str, recording: Recording, pull: Pull | None) -> dict[str, Any]:
        self._manifest["specs"] |= {n: _spec(s) for n, s in recording.specs.items() if n not in self._manifest["specs"]}
        present = set(recording.tensors)
        names = [n for n in recording.specs if n in present or n in recording.digests]
        missing, tensors, by_digest = dict(recording.missing), dict[str, list[Any]](), list[str]()
        for name in names:
            digest = recording.digests.get(name)
            part = self._parts.known(digest, recording.specs[name].valid_bytes) if digest is not None else None
            if part is not None and name not in present:
                by_digest.append(name)
            if part is None:
                part = self._fetch(name, recording, pull)
            tensors[name] = [part, digest]
        return {
            "label": label,
            **{k: getattr(recording, k) for k in ("side", "engine", "version", "host", "duration_s", "state", "why")},
            **self._engine_facts(recording),
            "settings": {k: v for k, v in recording.settings.items() if isinstance(v, str | int | float | bool)},
            "finals": list(recording.finals),
            "capabilities": sorted(recording.capabilities),
            "model_sha256": recording.model_sha256,
            **({"kernels": recording.kernels} if recording.kernels else {}),
            "inputs_sha256": recording.inputs_sha256,
            "link": dict(recording.link),
            "notes": list(recording.notes),
            "missing": missing,
            "tensors": tensors,
            "by_digest": by_digest,
            **self._forms(recording),
            **({"untapped": self._untapped(recording.untapped)} if recording.untapped is not None else {}),
        }

    def _engine_facts(self, recording: Recording) -> dict[str, Any]:
        """Returns what a side has that an engine ran: whether it is a further side, where nodes ran, versions."""
        placement = {"placement": [asdict(p) for p in recording.placement]} if recording.placement else {}
        ledger = {"ledger": recording.ledger} if recording.ledger else {}
        return {**({"is_engine": True} if recording.is_engine else {}), **placement, **ledger}

    def _forms(self, recording: Recording) -> dict[str, Any]:
        """Returns `forms` of a side: type and shape of the tensors that it gave otherwise than `specs` states."""
        forms = {
            name: {"dtype": spec.dtype, "shape": list(spec.shape)}
            for name, spec in recording.specs.items()
            if (spec.dtype, tuple(spec.shape)) != _form(self._manifest["specs"][name])
        }
        return {"forms": forms} if forms else {}

    def _untapped(self, untapped: Untapped) -> dict[str, Any]:
        """Stores the final outputs of the unchanged model, and returns their row."""
        tensors = {n: [self._store(v), tensor_digest(v)] for n, v in untapped.tensors.items()}
        found = {"level": untapped.level, "optimizers": list(untapped.optimizers)}
        return {"why": untapped.why, "tensors": tensors, **found}

    def _store(self, value: Array, digest: str = "") -> int | None:
        dense = np.ascontiguousarray(value)
        return self._part(dense.reshape(-1).view(np.uint8).data, digest or tensor_digest(dense))

    def _fetch(self, name: str, recording: Recording, pull: Pull | None) -> int | None:
        """Stores the bytes of a side's tensor. Returns the number of the part, None if the bytes are not available."""
        value = recording.tensors[name] if name in recording.tensors else recording.pulled.get(name)
        if value is None and pull is not None:
            try:
                value = pull([name])[name]
            except Exception as error:  # if the link fails, the capture goes on without the bytes of this tensor
                if not hasattr(error, "exit_status"):
                    raise
                recording.notes.append(f"capture: {name} could not be pulled: {' '.join(str(error).split())}")
        if value is None:
            return None
        return self._store(value, recording.digests.get(name, ""))

    def _part(self, data: bytes | memoryview, digest: str = "") -> int | None:
        """Stores a content. Returns the number of its part, None if it could not be written."""
        number: list[int] = []
        self._try(lambda: number.append(self._parts.add(data, digest)))
        return number[0] if number else None

    def _try(self, step: Callable[[], None]) -> bool:
        """Runs a step of writing, unless an earlier one failed. Returns whether it succeeded."""
        if self.why:
            return False
        try:
            step()
        except (OSError, UsageError) as error:
            self.why = f"it could not be written: {getattr(error, 'strerror', None) or error}"
        return not self.why

    def close(self, report: str = "", why: str = "") -> str:
        """Writes report.json and capture.json. Returns why the capture is incomplete, or "". report: the report as
        JSON, "" without one. why: why the run was cut off, "" if it was not."""
        if self._closed:
            return self.why
        self._closed = True
        try:
            self._parts.close()
        except OSError as error:
            self.why = self.why or f"it could not be written: {error.strerror}"
        if report and self._try(lambda: write_text(report, os.path.join(self.folder, "report.json"))):
            self._manifest["report_sha256"] = hashlib.sha256(report.encode()).hexdigest()
        self.why = self.why or why
        while (lacking := self._write_manifest()) and (self._remove_report() or self._parts.shorten(lacking)):
            pass
        return self.why

    def _remove_report(self) -> bool:
        """Removes report.json, the first file to be removed on a full disk. Returns whether it existed."""
        try:
            os.unlink(os.path.join(self.folder, "report.json"))
        except OSError:
            return False
        return True

    def discard_if_empty(self) -> None:
        """Removes what was written, unless a frame ran, and the folder if this writer created it."""
        if not self._closed and not any(row["sides"] for row in self._manifest["frames"]):
            self._closed = True
            with contextlib.suppress(OSError):
                self._parts.close()
                os.unlink(os.path.join(self.folder, "parts.zst"))
            shutil.rmtree(os.path.join(self.folder, "models"), ignore_errors=True)
            if self._created_folder:
                with contextlib.suppress(OSError):  # not empty: other files are in it
                    os.rmdir(self.folder)

    def _write_manifest(self) -> int:
        """Writes capture.json. Returns 0, or the number of bytes for which a full disk has no room."""
        parts = [[p.offset, p.stored, p.raw, p.digest] for p in self._parts.parts]
        manifest = {
            **self._manifest,
            "parts": parts,
            "state": "incomplete" if self.why else "complete",
            "why": self.why,
        }
        text = json.dumps(plain(_without_lost_parts(manifest, len(parts))), allow_nan=False) + "\n"
        try:
            write_text(text, os.path.join(self.folder, "capture.json"))
        except UsageError as error:
            self.why = self.why or str(error)
            return len(text) if getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT) else 0
        return 0


def _without_lost_parts(manifest: dict[str, Any], parts: int) -> dict[str, Any]:
    """Returns the manifest with null for parts that were not written to the disk."""
    for frame in manifest["frames"]:
        for row in frame["inputs"]:
            row["part"] = row["part"] if row["part"] is not None and row["part"] < parts else None
        for side in frame["sides"]:
            for tensor in (*side["tensors"].values(), *side.get("untapped", {}).get("tensors", {}).values()):
                tensor[0] = tensor[0] if tensor[0] is not None and tensor[0] < parts else None
    return manifest


def _form(row: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
    return row["dtype"], tuple(row["shape"])


def _spec(spec: TensorSpec) -> dict[str, Any]:
    keys = ("dtype", "shape", "aligned_shape", "scale", "zero_point", "channel_axis", "layout", "interior")
    return {k: getattr(spec, k) for k in (*keys, "integer_reference")}
