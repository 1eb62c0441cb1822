"""Writes a capture while a run goes on (CAPTURE.md)."""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qverify import __version__
from qverify.capture.parts import PartWriter
from qverify.errors import UsageError
from qverify.files import write_bytes, write_text
from qverify.report.document import plain
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec

SCHEMA = "qverify.capture/1"
Pull = Callable[[list[str]], Mapping[str, Array]]


class CaptureWriter:
    """One folder. A full disk never raises after the folder was made: the capture is then marked incomplete (why)."""

    def __init__(self, folder: str, command: Mapping[str, Any]):
        """UsageError where the folder cannot be made or holds something."""
        self.folder, self.why, self._closed = folder, "", False
        self._held: dict[str, Any] = {
            "schema": SCHEMA,
            "qverify": __version__,
            "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": dict(command),
            "models": [],
            "specs": {},
            "frames": [],
        }
        self._made = not os.path.isdir(folder)
        try:
            if not self._made and os.listdir(folder):
                raise FileExistsError
            os.makedirs(os.path.join(folder, "models"))
            self._parts = PartWriter(os.path.join(folder, "parts.zst"))
        except FileExistsError:
            raise UsageError(
                f"--capture {folder}: it is there already and holds something; name a folder that is not"
            ) from None
        except OSError as error:
            raise UsageError(f"--capture {folder}: cannot be written: {error.strerror}") from error

    def model(self, file: str, path: str, kind: str, sha256: str, data: bytes) -> None:
        """file: its name in `models`. path: as the user gave it."""
        row = {"file": file, "path": path, "kind": kind, "sha256": sha256, "bytes": len(data)}
        if self._try(lambda: write_bytes(data, os.path.join(self.folder, "models", file))):
            self._held["models"].append(row)

    def frame(
        self, number: int, source: str, prepared: PreparedInputs, sides: Mapping[str, Recording], pull: Pull | None
    ) -> None:
        """pull: asks the board for what no side holds."""
        inputs = [
            {"name": i.spec.name, "part": self._part(i.data), "sha256": i.sha256, "source": i.source, "seed": i.seed}
            for i in prepared.inputs
        ]
        self._held["specs"] |= {i.spec.name: _spec(i.spec) for i in prepared.inputs}
        rows = [self._side(label, r, pull if r.side == "board" else None) for label, r in sides.items()]
        self._held["frames"].append({"frame": number, "source": source, "inputs": inputs, "sides": rows})

    def not_run(self, number: int, source: str, why: str) -> None:
        """A frame that could not be prepared."""
        self._held["frames"].append({"frame": number, "source": source, "inputs": [], "sides": [], "why": why})

    def repeated(self, found: Mapping[str, Any]) -> None:
        """What --repeat found at the last frame (Report.repeat)."""
        self._held["frames"][-1]["repeat"] = dict(found)

    def on_others(self, found: Mapping[str, Any]) -> None:
        """What --paranoid found at the last frame (session/other_inputs.py)."""
        self._held["frames"][-1]["other_inputs"] = dict(found)

    def _side(self, label: str, recording: Recording, pull: Pull | None) -> dict[str, Any]:
        self._held["specs"] |= {n: _spec(s) for n, s in recording.specs.items() if n not in self._held["specs"]}
        came = set(recording.tensors)
        names = [n for n in recording.specs if n in came or n in recording.digests]
        missing, tensors, by_digest = dict(recording.missing), dict[str, list[Any]](), list[str]()
        for name in names:
            digest = recording.digests.get(name)
            part = self._parts.known(digest, recording.specs[name].valid_bytes) if digest is not None else None
            if part is not None and name not in came:
                by_digest.append(name)
            if part is None:
                part = self._fetched(name, recording, pull)
            tensors[name] = [part, digest]
        return {
            "label": label,
            **{k: getattr(recording, k) for k in ("side", "engine", "version", "host", "duration_s", "state", "why")},
            "settings": {k: v for k, v in recording.settings.items() if isinstance(v, str | int | float | bool)},
            "finals": list(recording.finals),
            "capabilities": sorted(recording.capabilities),
            "model_sha256": recording.model_sha256,
            "inputs_sha256": recording.inputs_sha256,
            "link": dict(recording.link),
            "notes": list(recording.notes),
            "missing": missing,
            "tensors": tensors,
            "by_digest": by_digest,
        }

    def _fetched(self, name: str, recording: Recording, pull: Pull | None) -> int | None:
        value = recording.tensors.get(name) if name in recording.tensors else None
        if value is None and pull is not None:
            try:
                value = pull([name])[name]
            except Exception as error:  # of a link: the capture goes on without this tensor's bytes
                if not hasattr(error, "exit_status"):
                    raise
                recording.notes.append(f"capture: {name} could not be pulled: {' '.join(str(error).split())}")
        if value is None:
            return None
        dense = np.ascontiguousarray(value)
        return self._part(dense.reshape(-1).view(np.uint8).data, recording.digests.get(name) or tensor_digest(dense))

    def _part(self, data: bytes | memoryview, digest: str = "") -> int | None:
        number: list[int] = []
        self._try(lambda: number.append(self._parts.add(data, digest)))
        return number[0] if number else None

    def _try(self, step: Callable[[], None]) -> bool:
        """False once something could not be written; nothing is tried after that."""
        if self.why:
            return False
        try:
            step()
        except (OSError, UsageError) as error:
            self.why = f"it could not be written: {getattr(error, 'strerror', None) or error}"
        return not self.why

    def close(self, report: str = "", why: str = "") -> str:
        """Writes capture.json; "" or why the capture is incomplete. report: JSON. why: the run was cut off."""
        if self._closed:
            return self.why
        self._closed = True
        try:
            self._parts.close()
        except OSError as error:
            self.why = self.why or f"it could not be written: {error.strerror}"
        if report and self._try(lambda: write_text(report, os.path.join(self.folder, "report.json"))):
            self._held["report_sha256"] = hashlib.sha256(report.encode()).hexdigest()
        self.why = self.why or why
        while (lacking := self._listed()) and (self._without_report() or self._parts.shorten(lacking)):
            pass
        return self.why

    def _without_report(self) -> bool:
        """The first to give way on a full disk."""
        try:
            os.unlink(os.path.join(self.folder, "report.json"))
        except OSError:
            return False
        return True

    def forget(self) -> None:
        """What was written goes, unless a frame ran; and the folder, where it is ours."""
        if not self._closed and not any(row["sides"] for row in self._held["frames"]):
            self._closed = True
            with contextlib.suppress(OSError):
                self._parts.close()
                os.unlink(os.path.join(self.folder, "parts.zst"))
            shutil.rmtree(os.path.join(self.folder, "models"), ignore_errors=True)
            if self._made:
                with contextlib.suppress(OSError):  # not empty: somebody else's
                    os.rmdir(self.folder)

    def _listed(self) -> int:
        """Writes capture.json; the bytes it lacks on a full disk, else 0."""
        parts = [[p.offset, p.stored, p.raw, p.digest] for p in self._parts.parts]
        held = {**self._held, "parts": parts, "state": "incomplete" if self.why else "complete", "why": self.why}
        text = json.dumps(plain(_written(held, len(parts))), allow_nan=False) + "\n"
        try:
            write_text(text, os.path.join(self.folder, "capture.json"))
        except UsageError as error:
            self.why = self.why or str(error)
            return len(text) if getattr(error.__cause__, "errno", None) in (errno.ENOSPC, errno.EDQUOT) else 0
        return 0


def _written(held: dict[str, Any], parts: int) -> dict[str, Any]:
    """Parts that did not reach the disk are null."""
    for frame in held["frames"]:
        for row in frame["inputs"]:
            row["part"] = row["part"] if row["part"] is not None and row["part"] < parts else None
        for side in frame["sides"]:
            for tensor in side["tensors"].values():
                tensor[0] = tensor[0] if tensor[0] is not None and tensor[0] < parts else None
    return held


def _spec(spec: TensorSpec) -> dict[str, Any]:
    keys = ("dtype", "shape", "aligned_shape", "scale", "zero_point", "channel_axis", "layout", "interior")
    return {k: getattr(spec, k) for k in (*keys, "integer_reference")}
