"""The scratch folder of a run in another interpreter: writes the job, and reads the results, treating them as
untrusted."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from qverify_agents.printable import one_line

from qverify.errors import QVerifyError
from qverify.files import read_regular, writing
from qverify.inputs.arrays import read_npy
from qverify.plural import count
from qverify.report.spread import SpreadRun
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

HEADER = 4096  # upper bound of an .npz's overhead per array, in bytes


class ResultRejected(Exception):
    """Raised when the other interpreter's result is rejected."""


@dataclass(frozen=True, slots=True)
class ReferenceVariant:
    """One more run of the reference. base: the arrays to compare with. specs: the specs of the outputs, with the names
    that the report uses. Both are keyed by the model's own output names."""

    model: bytes
    feed: Mapping[str, Array]
    base: Mapping[str, Array]
    specs: Mapping[str, TensorSpec]
    level: str
    threads: int


def write_job(folder: Path, variants: Sequence[ReferenceVariant]) -> None:
    """Writes a job for run_in_interpreter.py: one file per model and one per feed, however many runs share them."""
    with writing(folder):
        _write_job(folder, variants)


def _write_job(folder: Path, variants: Sequence[ReferenceVariant]) -> None:
    names, runs = dict[int, str](), []
    for variant in variants:
        model, feed = variant.model, variant.feed
        if id(model) not in names:
            names[id(model)] = f"model-{len(names)}.onnx"
            (folder / names[id(model)]).write_bytes(model)
        if id(feed) not in names:
            names[id(feed)] = f"feed-{len(names)}.npz"
            arrays: dict[str, Any] = {str(number): value for number, value in enumerate(feed.values())}
            np.savez(folder / names[id(feed)], **arrays)
        run = {"model": names[id(model)], "feed": names[id(feed)], "level": variant.level, "threads": variant.threads}
        runs.append(run | {"inputs": [*feed], "outputs": [*variant.base]})
    (folder / "job.json").write_text(json.dumps({"runs": runs}))


def largest_result_bytes(like: Mapping[str, Array]) -> int:
    """Returns an upper bound for the size of a run's result file."""
    return sum(array.nbytes + HEADER for array in like.values()) + HEADER


def read_result(path: Path, like: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the arrays of a run by name. Raises ResultRejected if an array has another dtype or shape than in `like`,
    or is not finite where that one is."""
    try:
        with zipfile.ZipFile(io.BytesIO(read_regular(str(path), largest_result_bytes(like) + 1))) as archive:
            if sorted(archive.namelist()) != sorted(f"{number}.npy" for number in range(len(like))):
                raise ResultRejected(
                    f"{path.name} contains {count(len(archive.namelist()), 'array')}, not the {len(like)} asked for"
                )
            return {
                name: _array(archive, f"{number}.npy", name, expected)
                for number, (name, expected) in enumerate(like.items())
            }
    except ResultRejected:
        raise
    except Exception as error:  # zipfile, zlib and numpy raise many types
        reason = str(error).removeprefix(f"{path}: ") or type(error).__name__
        raise ResultRejected(f"{path.name} cannot be read: {reason}") from error


def _array(archive: zipfile.ZipFile, member: str, name: str, like: Array) -> Array:
    size = archive.getinfo(member).file_size
    if size > like.nbytes + HEADER:
        raise ResultRejected(f"{name} is {size} bytes, the reference's {like.nbytes}")
    with archive.open(member) as file:
        value = read_npy(file, size, name)
    value = value.astype(value.dtype.newbyteorder("="), copy=False)
    if value.dtype != like.dtype or value.shape != like.shape:
        ours = f"{like.dtype}{list(like.shape)}"
        raise ResultRejected(f"{name} is {value.dtype}{list(value.shape)}, the reference's {ours}")
    if value.dtype.kind == "f" and bool((~np.isfinite(value) & np.isfinite(like)).any()):
        raise ResultRejected(f"{name} is NaN or Inf where the reference is finite")
    return value


def read_identity(folder: Path, command: str) -> SpreadRun:
    """Returns a row with the versions and the machine that the interpreter states. Raises ResultRejected if one is
    missing."""
    try:
        content = json.loads(read_regular(str(folder / "ran.json"), HEADER))
        facts = [content[k] for k in ("onnxruntime", "python", "machine")]
    except (QVerifyError, ValueError, TypeError, KeyError, RecursionError):
        facts = []
    if not facts or not all(isinstance(w, str) and 0 < len(w) <= 80 for w in facts):
        raise ResultRejected("ran.json does not state its versions and its machine")
    version, python, machine = (one_line(w) for w in facts)
    return SpreadRun(one_line(command), version, python, machine)
