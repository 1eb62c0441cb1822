"""Reads a capture, treating it as untrusted (CAPTURE.md)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from qverify.capture.parts import Part, PartReader
from qverify.capture.rows import MAX_MODEL_BYTES, check_frame, make_form, make_spec, read_placement, whole_number
from qverify.capture.writer import SCHEMA
from qverify.errors import BadFileError
from qverify.files import parse_strict_json, read_regular
from qverify.model_bin.graph import Graph
from qverify.plural import count
from qverify.printable import printable
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Array, Recording, Tensors, Untapped
from qverify.tensors.spec import TensorSpec

MAX_MANIFEST_BYTES = 1 << 30
MAX_OPTIMIZERS = 8  # names that a capture may state
PRECISION = "precision"
IGNORED_SETTINGS = (PRECISION, "runtime")  # settings of a side that would change how it is judged
MAP, MAP_ENDING = (
    "map",
    ".map.json",
)  # kind and ending of the map of tensors, ONNX to .tflite, beside the quantized ONNX
STATES = ("complete", "partial", "did not run", "not read")


@dataclass(slots=True)
class Capture:
    """A capture, as open_capture() opens it.

    Attributes:
        folder: path of the capture.
        incomplete: why the capture is incomplete, "" if it is complete.
        command: the options of the run on which its verdict depends.
        models: the rows of the models, by file name; model_path() checks each file.
        specs: the specs of tensors and inputs, by name.
        frames: the rows of the frames.
        parts: reads the stored bytes.
        report_sha256: hash of report.json, "" without one.
        reads_forms: whether the board's tensors may have other types and shapes than the model's (`forms`), as the user
            states that a runner gave them. If not, such a tensor is missing.
    """

    folder: str
    incomplete: str
    command: dict[str, Any]
    models: dict[str, dict[str, Any]]
    specs: dict[str, TensorSpec]
    frames: list[dict[str, Any]]
    parts: PartReader
    report_sha256: str = ""
    reads_forms: bool = False
    _checked: dict[int, str] = field(default_factory=dict)

    @property
    def board(self) -> str | None:
        """The board's address in the captured run, `board` if that is not recorded; None if the run had no board."""
        has_board = any(side["side"] == "board" for row in self.frames for side in row["sides"])
        address = self.command.get("board")
        return str(address) if address else "board" if has_board else None

    def model_path(self, file: str) -> str:
        """Returns the path of a model's file. Raises BadFileError if its hash is not the recorded one."""
        path = os.path.join(self.folder, "models", file)
        if hashlib.sha256(read_regular(path, MAX_MODEL_BYTES)).hexdigest() != self.models[file]["sha256"]:
            raise BadFileError(f"{path}: is not what was captured (its SHA-256 differs)")
        return path

    def model_paths(self) -> list[str]:
        """Returns the paths of the models' files, as -m takes them. A .tflite beside a quantized ONNX is left out if
        their map of tensors is not recorded. Raises BadFileError if the hash of a file is not the recorded one."""
        kinds = {file: row["kind"] for file, row in self.models.items()}
        for file in [f for f, kind in kinds.items() if kind == MAP]:
            self.model_path(file)
        quantized = [f for f, kind in kinds.items() if kind == "quant.onnx"]
        mapped = all(kinds.get(f + MAP_ENDING) == MAP for f in quantized)
        left_out = (MAP,) if mapped else (MAP, "tflite")
        return [self.model_path(f) for f, kind in kinds.items() if kind not in left_out]

    def stated_kernels(self, number: int, label: str) -> str:
        """Returns the kernels that a side of a frame claims to have run (Recording.kernels); "" if it claims none.
        number: of the frame."""
        return next((str(s.get("kernels", "")) for s in self.frames[number]["sides"] if s["label"] == label), "")

    def stated_decimals(self, number: int, label: str) -> int | None:
        """Returns the number of decimals that a side of a frame claims to have printed, None if it claims none. number: of
        the frame."""
        found = (s["settings"].get("precision") for s in self.frames[number]["sides"] if s["label"] == label)
        decimals = next(found, None)
        return decimals if isinstance(decimals, int) and not isinstance(decimals, bool) else None

    def stated_forms(self, number: int, label: str) -> frozenset[str]:
        """Returns the tensors of a side of a frame that are read in the form in which it gave them, another than the
        model's."""
        rows = (s for s in self.frames[number]["sides"] if s["label"] == label)
        return frozenset(name for row in rows for name in self._forms(row))

    def _describe_unread_form(self, row: Mapping[str, Any], name: str) -> str:
        """Returns why a tensor that a runner gave in another form than the model's is not read; "" if there is no reason."""
        form = row.get("forms", {}).get(name)
        if form is None or self._reads_forms_of(row):
            return ""
        return f"{printable(str(form['dtype']))}{list(form['shape'])} of a runner; replay --runtime NAME reads it"

    def _reads_forms_of(self, row: Mapping[str, Any]) -> bool:
        """Returns whether tensors of a side may have another form than the model's: those of an engine, and those of a
        board that the user states to have a runner."""
        return row.get("is_engine") is True or (self.reads_forms and row["side"] == "board")

    def _forms(self, row: Mapping[str, Any]) -> dict[str, TensorSpec]:
        if not self._reads_forms_of(row):
            return {}
        return {str(n): make_form(str(n), form) for n, form in row.get("forms", {}).items()}

    def prepared(self, number: int, graph: Graph) -> PreparedInputs:
        """Returns the inputs of a frame in the graph's order. Raises BadFileError if one is damaged."""
        rows = {str(row["name"]): row for row in self.frames[number]["inputs"]}
        inputs = []
        for name in graph.inputs:
            row, spec = rows.get(name), graph.spec(name)
            if row is None or not isinstance(row["part"], int):
                raise BadFileError(f"{self.folder}: frame {number} has no bytes of input {name!r}")
            data = self.parts.read(row["part"], spec.size_bytes)
            if len(data) != spec.size_bytes or hashlib.sha256(data).hexdigest() != row["sha256"]:
                raise BadFileError(f"{self.folder}: input {name!r} of frame {number} is not what was captured")
            seed = row["seed"] if isinstance(row["seed"], int) else None
            inputs.append(PreparedInput(spec, data, printable(str(row["source"])), seed))
        return PreparedInputs(tuple(inputs))

    def report(self) -> dict[str, Any]:
        """Returns the run's report as plain values. Raises BadFileError if it is missing, or not what the run wrote."""
        path = os.path.join(self.folder, "report.json")
        data = read_regular(path, MAX_MANIFEST_BYTES)
        if self.report_sha256 and hashlib.sha256(data).hexdigest() != self.report_sha256:
            raise BadFileError(f"{path}: is not what was captured (its SHA-256 differs)")
        try:
            content = parse_strict_json(data)
        except (ValueError, RecursionError) as error:
            raise BadFileError(f"{path}: not JSON: {error}") from error
        if not isinstance(content, dict):
            raise BadFileError(f"{path}: not a JSON object")
        return content

    def why(self, number: int) -> str:
        """Returns why a frame did not run; "" if it ran."""
        return printable(str(self.frames[number].get("why", "")))

    def board_lost(self, number: int) -> bool:
        """Returns whether a frame did not run because the board had been lost before it."""
        return self.frames[number].get("board_lost") is True

    def recordings(self, number: int) -> dict[str, Recording]:
        """Returns the sides of a frame by label. A tensor with damaged bytes is missing, with the reason. Raises
        BadFileError where a side cannot be read."""
        try:
            return {str(row["label"]): self._recording(row) for row in self.frames[number]["sides"]}
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            reason = f"{type(error).__name__} {error}"
            raise BadFileError(f"{self.folder}: a side of frame {number} cannot be read: {reason}") from error

    def _recording(self, row: Mapping[str, Any]) -> Recording:
        missing = {str(n): printable(str(why)) for n, why in row["missing"].items()}
        settings, notes = _strict_settings(row)
        specs = {n: self.specs[n] for n in (*row["tensors"], *missing) if n in self.specs}
        specs |= {n: s for n, s in self._forms(row).items() if n in specs}
        loaders, digests = {}, {}
        for name, (part, digest) in row["tensors"].items():
            why = self._reason_unusable(part, digest, specs.get(name)) or self._describe_unread_form(row, name)
            if why:
                missing[name] = why
                continue
            if isinstance(digest, str):
                digests[name] = digest
            if part is not None:
                loaders[name] = partial(self._value, part, specs[name])
        state = row["state"] if row["state"] in STATES else "partial"
        why = printable(str(row["why"]))
        if state == "complete" and missing:
            state, why = "partial", f"{count(len(missing), 'tensor', 'is', 'are')} not in the capture"
        return Recording(
            str(row["side"]),
            printable(str(row["engine"])),
            printable(str(row["version"])),
            settings,
            printable(str(row["host"])),
            float(row["duration_s"]),
            specs,
            tuple(n for n in row["finals"] if n in specs),
            Tensors(loaders),
            digests,
            missing,
            frozenset(str(c) for c in row["capabilities"]),
            str(row["model_sha256"]),
            str(row.get("inputs_sha256", "")),
            state,  # type: ignore[arg-type]
            why,
            {str(k): int(v) for k, v in row["link"].items()},
            [*(printable(str(n)) for n in row["notes"]), *notes],
            borrowed=frozenset(str(n) for n in row.get("by_digest", [])),
            untapped=self._untapped(row["untapped"], specs) if "untapped" in row else None,
            runtime=str(row["side"]) if row.get("is_engine") is True else "qvrt",
            is_engine=row.get("is_engine") is True,
            placement=read_placement(row),
            ledger={printable(str(k)): printable(str(v)) for k, v in dict(row.get("ledger", {})).items()},
        )

    def _untapped(self, row: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> Untapped:
        """Returns the final outputs of the unchanged model. If one of them is damaged, there are none, with the
        reason."""
        why, tensors = printable(str(row["why"])), dict[str, Array]()
        for name, (part, digest) in row["tensors"].items():
            unusable = self._reason_unusable(part, digest, specs.get(name))
            if unusable or part is None:
                return Untapped(why=f"{printable(str(name))} of the unchanged model: {unusable or 'no bytes'}")
            tensors[str(name)] = self._value(part, specs[name])
        level = str(row["level"]) if row["level"] in ("disable_all", "basic", "extended", "all") else ""
        optimizers = tuple(printable(str(n)[:80]) for n in list(row["optimizers"])[:MAX_OPTIMIZERS])
        return Untapped({} if why else tensors, why, level, optimizers)

    def _reason_unusable(self, part: Any, digest: Any, spec: TensorSpec | None) -> str:
        """Returns why a tensor of the capture cannot be used; "" if it can. part, digest: as capture.json states
        them."""
        if spec is None:
            return "capture: its layout is not recorded"
        if part is None:
            return "" if isinstance(digest, str) else "capture: it does not contain its bytes"
        if not isinstance(part, int) or not 0 <= part < len(self.parts.parts):
            return "capture: its part is not listed"
        listed = self.parts.parts[part]
        if listed.raw != spec.valid_bytes or (digest is not None and digest != listed.digest):
            return f"capture: part {part} does not match it"
        if part not in self._checked:
            try:
                self.parts.read(part)
                self._checked[part] = ""
            except BadFileError as error:
                self._checked[part] = f"capture: {error}"
        return self._checked[part]

    def _value(self, part: int, spec: TensorSpec) -> Array:
        return np.frombuffer(self.parts.read(part), spec.numpy_dtype).reshape(spec.shape)


def _strict_settings(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Returns a side's settings without those that would change how it is judged, and a note on each of the latter. The
    sides of a capture were recorded by qverify, so all their values are exact, but what a runner printed."""
    settings = {str(k): v for k, v in row["settings"].items()}
    refused = [k for k in IGNORED_SETTINGS if settings.pop(k, None) is not None]
    return settings, [note_ignored(k, str(row["side"])) for k in refused]


def note_ignored(setting: str, side: str) -> str:
    """Returns the note that a captured side's setting is ignored."""
    return f"capture: {setting!r} in the settings of the {side} is ignored; its values are exact"


def is_capture(path: str) -> bool:
    """Returns whether the path is a folder written by --capture, complete or not."""
    return os.path.isfile(os.path.join(path, "capture.json")) or os.path.isfile(os.path.join(path, "parts.zst"))


def open_capture(folder: str) -> Capture:
    """Opens a capture. Raises BadFileError if capture.json is missing, has another format, or contradicts itself."""
    path = os.path.join(folder, "capture.json")
    if os.path.isfile(folder):
        raise BadFileError(f"{folder}: a file; wanted a folder of --capture DIR. Models are given by -m")
    if not os.path.isdir(folder):
        raise BadFileError(f"{folder}: no such folder; wanted a capture: what --capture DIR of a run wrote")
    if not is_capture(folder):
        raise BadFileError(f"{folder}: no capture, as it has no capture.json; wanted what --capture DIR of a run wrote")
    if not os.path.isfile(path):
        raise BadFileError(f"{path} is missing: the run that wrote {folder} was killed; nothing of it can be read")
    try:
        manifest = parse_strict_json(read_regular(path, MAX_MANIFEST_BYTES))
        schema = manifest.get("schema")
        if schema != SCHEMA:
            later = isinstance(schema, str) and schema.startswith("qverify.capture/")
            raise BadFileError(
                f"{path}: format {schema!r}, wanted {SCHEMA!r}" + ("; it needs a newer qverify" if later else "")
            )
        return _make_capture(folder, manifest)
    except BadFileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise BadFileError(f"{path}: not a manifest of {SCHEMA}: {type(error).__name__} {error}") from error


def _make_capture(folder: str, manifest: dict[str, Any]) -> Capture:
    parts = [Part(whole_number(o), whole_number(s), whole_number(r), str(d)) for o, s, r, d in manifest["parts"]]
    specs = {str(n): make_spec(str(n), row) for n, row in manifest["specs"].items()}
    models = {}
    for row in manifest["models"]:
        file = str(row["file"])
        if os.path.basename(file) != file or file in ("", ".", ".."):
            raise ValueError(f"model file {file!r}")
        if file in models:
            raise ValueError(f"model file {file!r} twice")
        models[file] = {k: str(row[k]) for k in ("path", "kind", "sha256")}
    frames = [check_frame(row, specs) for row in manifest["frames"]]
    if len({row["frame"] for row in frames}) != len(frames):
        raise ValueError("two frames of one number")
    why = "" if manifest["state"] == "complete" else printable(str(manifest["why"])) or "it states no reason"
    reader = PartReader(os.path.join(folder, "parts.zst"), parts)
    return Capture(
        folder, why, dict(manifest["command"]), models, specs, frames, reader, str(manifest.get("report_sha256", ""))
    )
