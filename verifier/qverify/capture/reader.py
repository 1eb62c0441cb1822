"""Reads a capture, believing nothing of it (CAPTURE.md)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from qverify.capture.parts import Part, PartReader
from qverify.capture.writer import SCHEMA
from qverify.errors import BadFileError
from qverify.files import json_once, read_regular
from qverify.model_bin.graph import Graph
from qverify.printable import printable
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Array, Recording, Tensors
from qverify.tensors.spec import TensorSpec

MOST_MANIFEST, MOST_MODEL = 1 << 30, 1 << 31
MOST_PADDING = 4096  # elements of a dim
SIDES = ("reference", "simulator", "board")
LOOSENING = ("precision", "runtime")  # of settings: what a text dump, or another runtime, is judged by
STATES = ("complete", "partial", "did not run")
DTYPES = ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "float64", "bool")


@dataclass(slots=True)
class Capture:
    """folder: opened by open_capture(). incomplete: "" or why it is so. models: file to kind, each checked by model_path()."""

    folder: str
    incomplete: str
    command: dict[str, Any]
    models: dict[str, dict[str, Any]]
    specs: dict[str, TensorSpec]
    frames: list[dict[str, Any]]
    parts: PartReader
    report_sha256: str = ""
    _checked: dict[int, str] = field(default_factory=dict)

    @property
    def board(self) -> str | None:
        """What the captured run called its board; None where it had none."""
        any_board = any(side["side"] == "board" for row in self.frames for side in row["sides"])
        named = self.command.get("board")
        return str(named) if named else "board" if any_board else None

    def model_path(self, file: str) -> str:
        """The path of a model's file. BadFileError where its hash is not the recorded one."""
        path = os.path.join(self.folder, "models", file)
        if hashlib.sha256(read_regular(path, MOST_MODEL)).hexdigest() != self.models[file]["sha256"]:
            raise BadFileError(f"{path}: is not what was captured (its SHA-256 differs)")
        return path

    def prepared(self, number: int, graph: Graph) -> PreparedInputs:
        """The inputs of a frame, in the graph's order. BadFileError where one is not whole."""
        held = {str(row["name"]): row for row in self.frames[number]["inputs"]}
        found = []
        for name in graph.inputs:
            row, spec = held.get(name), graph.spec(name)
            if row is None or not isinstance(row["part"], int):
                raise BadFileError(f"{self.folder}: frame {number} has no bytes of input {name!r}")
            data = self.parts.read(row["part"], spec.size_bytes)
            if len(data) != spec.size_bytes or hashlib.sha256(data).hexdigest() != row["sha256"]:
                raise BadFileError(f"{self.folder}: input {name!r} of frame {number} is not what was captured")
            seed = row["seed"] if isinstance(row["seed"], int) else None
            found.append(PreparedInput(spec, data, printable(str(row["source"])), seed))
        return PreparedInputs(tuple(found))

    def report(self) -> dict[str, Any]:
        """What the run said. BadFileError where it is not there, or not what the run wrote."""
        path = os.path.join(self.folder, "report.json")
        data = read_regular(path, MOST_MANIFEST)
        if self.report_sha256 and hashlib.sha256(data).hexdigest() != self.report_sha256:
            raise BadFileError(f"{path}: is not what was captured (its SHA-256 differs)")
        try:
            held = json_once(data)
        except (ValueError, RecursionError) as error:
            raise BadFileError(f"{path}: not JSON: {error}") from error
        if not isinstance(held, dict):
            raise BadFileError(f"{path}: not a JSON object")
        return held

    def why(self, number: int) -> str:
        """Why this frame did not run; "" where it did."""
        return printable(str(self.frames[number].get("why", "")))

    def recordings(self, number: int) -> dict[str, Recording]:
        """The sides of a frame by label. A tensor whose bytes are not whole is missing there, with the reason. BadFileError
        where a side is not what a capture holds."""
        try:
            return {str(row["label"]): self._recording(row) for row in self.frames[number]["sides"]}
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            said = f"{type(error).__name__} {error}"
            raise BadFileError(f"{self.folder}: a side of frame {number} cannot be read: {said}") from error

    def _recording(self, row: Mapping[str, Any]) -> Recording:
        missing = {str(n): printable(str(why)) for n, why in row["missing"].items()}
        settings, notes = _settings(row)
        specs = {n: self.specs[n] for n in (*row["tensors"], *missing) if n in self.specs}
        loaders, digests = {}, {}
        for name, (part, digest) in row["tensors"].items():
            why = self._wrong(part, digest, specs.get(name))
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
            state, why = "partial", f"{len(missing)} tensors are not in the capture"
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
        )

    def _wrong(self, part: Any, digest: Any, spec: TensorSpec | None) -> str:
        """Why a tensor of the capture cannot be used; "" where it can."""
        if spec is None:
            return "capture: its layout is not recorded"
        if part is None:
            return "" if isinstance(digest, str) else "capture: its bytes are not there"
        if not isinstance(part, int) or not 0 <= part < len(self.parts.parts):
            return "capture: its part is not listed"
        held = self.parts.parts[part]
        if held.raw != spec.valid_bytes or (digest is not None and digest != held.digest):
            return f"capture: part {part} is not its bytes"
        if part not in self._checked:
            try:
                self.parts.read(part)
                self._checked[part] = ""
            except BadFileError as error:
                self._checked[part] = f"capture: {error}"
        return self._checked[part]

    def _value(self, part: int, spec: TensorSpec) -> Array:
        return np.frombuffer(self.parts.read(part), spec.numpy_dtype).reshape(spec.shape)


def _settings(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A side's settings without those that would loosen what it is judged by, and a note for each of these: the sides of a
    capture are ours, and no value of theirs is known to few digits."""
    held = {str(k): v for k, v in row["settings"].items()}
    refused = [k for k in LOOSENING if held.pop(k, None) is not None]
    return held, [
        f"capture: {k!r} in the settings of the {row['side']} is not taken; its values are exact" for k in refused
    ]


def is_capture(path: str) -> bool:
    """A folder of --capture, be it whole or not."""
    return os.path.isfile(os.path.join(path, "capture.json")) or os.path.isfile(os.path.join(path, "parts.zst"))


def open_capture(folder: str) -> Capture:
    """BadFileError where capture.json is missing, of another format, or cannot be read."""
    path = os.path.join(folder, "capture.json")
    if not os.path.isdir(folder):
        raise BadFileError(f"{folder}: no such folder; wanted one of --capture DIR")
    if not os.path.isfile(path):
        raise BadFileError(f"{path} is missing: the run that wrote {folder} was killed; nothing of it can be read")
    try:
        held = json_once(read_regular(path, MOST_MANIFEST))
        schema = held.get("schema")
        if schema != SCHEMA:
            later = isinstance(schema, str) and schema.startswith("qverify.capture/")
            raise BadFileError(
                f"{path}: format {schema!r}, wanted {SCHEMA!r}" + ("; it needs a newer qverify" if later else "")
            )
        return _opened(folder, held)
    except BadFileError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise BadFileError(f"{path}: not a manifest of {SCHEMA}: {type(error).__name__} {error}") from error


def _opened(folder: str, held: dict[str, Any]) -> Capture:
    parts = [Part(_count(o), _count(s), _count(r), str(d)) for o, s, r, d in held["parts"]]
    specs = {str(n): _spec(str(n), row) for n, row in held["specs"].items()}
    models = {}
    for row in held["models"]:
        file = str(row["file"])
        if os.path.basename(file) != file or file in ("", ".", ".."):
            raise ValueError(f"model file {file!r}")
        if file in models:
            raise ValueError(f"model file {file!r} twice")
        models[file] = {k: str(row[k]) for k in ("path", "kind", "sha256")}
    frames = [_frame(row, specs) for row in held["frames"]]
    if len({row["frame"] for row in frames}) != len(frames):
        raise ValueError("two frames of one number")
    why = "" if held["state"] == "complete" else printable(str(held["why"])) or "it says so itself"
    reader = PartReader(os.path.join(folder, "parts.zst"), parts)
    return Capture(
        folder, why, dict(held["command"]), models, specs, frames, reader, str(held.get("report_sha256", ""))
    )


def _frame(row: dict[str, Any], specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    _count(row["frame"])
    if not isinstance(row["source"], str) or not isinstance(row.get("why", ""), str):
        raise ValueError("source or why of a frame")
    if unknown := [side["side"] for side in row["sides"] if side["side"] not in SIDES]:
        raise ValueError(f"side {unknown[0]!r}")
    labels = [side["label"] for side in row["sides"]]
    if labels != [side["side"] for side in row["sides"]] or len(set(labels)) != len(labels):
        raise ValueError(f"sides labelled {labels}")
    for side in row["sides"]:
        for pair in side["tensors"].values():
            part, digest = pair
            if not isinstance(part, int | None) or not isinstance(digest, str | None) or isinstance(part, bool):
                raise ValueError(f"tensor {pair!r}")
        _consistent(side, specs)
        for key, kind in {"missing": dict, "settings": dict, "link": dict, "finals": list, "notes": list}.items():
            if not isinstance(side[key], kind):
                raise ValueError(f"{key} of a side")
    if not all(isinstance(row.get(key, {}), dict) for key in ("repeat", "other_inputs")):
        raise ValueError("repeat or other_inputs of a frame")
    for item in row["inputs"]:
        if not {"name", "part", "sha256", "source", "seed"} <= item.keys():
            raise ValueError("an input")
    names = [str(item["name"]) for item in row["inputs"]]
    if len(set(names)) != len(names):
        raise ValueError(f"two inputs of one name among {names}")
    return row


def _consistent(side: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> None:
    """ValueError for what a side says twice, one thing and another, or that would keep a tensor of it from being compared."""
    for name in (*side["tensors"], *side["missing"]):
        if name in specs and specs[name].interior:
            raise ValueError(f"{name!r} is a tensor of the {side['side']} and flagged interior")
    if both := side["tensors"].keys() & side["missing"].keys():
        raise ValueError(f"{min(both)!r} is a tensor of the {side['side']} and missing there")


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _spec(name: str, row: dict[str, Any]) -> TensorSpec:
    shape, aligned = (tuple(_count(d) for d in row[k]) for k in ("shape", "aligned_shape"))
    scale, zero = tuple(float(v) for v in row["scale"]), tuple(int(v) for v in row["zero_point"])
    fits = len(shape) == len(aligned) and all(
        n <= m <= 2 * n + MOST_PADDING for n, m in zip(shape, aligned, strict=True)
    )
    if row["dtype"] not in DTYPES or not fits or len(scale) != len(zero) or prod(aligned) > MOST_MODEL:
        raise ValueError(f"the layout of {name!r}")
    spec = TensorSpec(
        name,
        row["dtype"],
        shape,
        aligned,
        scale,
        zero,
        int(row["channel_axis"]),
        str(row["layout"]),
        bool(row["interior"]),
        bool(row["integer_reference"]),
    )
    if len(scale) > 1 and not (0 <= spec.channel_axis < len(shape) and shape[spec.channel_axis] == len(scale)):
        raise ValueError(f"the scales of {name!r}")
    return spec
