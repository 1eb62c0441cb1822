"""Compares intended inputs (prepared bytes or pictures) with the bytes captured on the board (INPUTS.md section 6)."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.files import open_regular
from qverify.inputs import arrays, difference, picture, reading
from qverify.inputs.description import Description
from qverify.inputs.difference import InputDifference, MistakeExplanation
from qverify.inputs.reproduction import Start, from_bytes
from qverify.session.inputs import prepared_files

UNDESCRIBED = Description("gray", (1, 1))  # stands for two files of bytes without a description: elements of uint8
MAX_UNDESCRIBED_BYTES = 1 << 28  # of one input without a description
MAX_DESCRIBED_BYTES = 1 << 30  # of one input with a description
DEFAULTS = {"colour_rounding": "half-away"}  # values of keys that a description leaves out
MAX_SIZE_RATIO = 16  # of the largest capture that is read to the intended size


@dataclass(frozen=True, slots=True)
class IntendedInput:
    """An intended input. path: of a picture, .npy pixels, or bytes. name: name by which a capture may be paired with
    it. description: the description of its bytes, None if unknown. sha256: the hash that its manifest states, ""
    without one."""

    path: str
    name: str
    description: Description | None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class ComparedFrame:
    """The difference of one frame. intended, captured: paths. description: the description of the intended input, None
    if unknown."""

    intended: str
    captured: str
    description: Description | None
    difference: InputDifference


def compare(
    a: str,
    b: str,
    description: Description | None,
    seconds: float,
    watch: Callable[[str, int, int], None] | None = None,
) -> list[ComparedFrame]:
    """Compares frame by frame. Mistakes that explained an earlier frame are tried first.

    a: path of the intended inputs. b: path of the captures. description: the description of the intended inputs, None
    if unknown. seconds: time limit of the search for all frames together. watch: receives the progress. Raises
    UsageError if the inputs cannot be paired or read."""
    intended_inputs = _list_intended(a, description)
    for intended in intended_inputs[:1]:
        if intended.description is not None and (size := intended.description.size_bytes) > MAX_DESCRIBED_BYTES:
            raise UsageError(
                f"an input of {size} bytes; at most {MAX_DESCRIBED_BYTES} can be compared. Give a smaller --size"
            )
    pairs = _pair(intended_inputs, _list_captured(b), a, b)
    deadline = time.monotonic() + seconds
    frames: list[ComparedFrame] = []
    earlier: list[MistakeExplanation] = []
    for intended, path in pairs:
        start = _open_start(intended)
        captured = _read_capture(path, _size_limit(start))
        seconds_left = max(0.0, deadline - time.monotonic())
        differing = difference.explain_difference(start, captured, seconds_left, watch, earlier)
        earlier = [e for group in differing.exact for e in group] or earlier
        frames.append(ComparedFrame(intended.path, path, intended.description, differing))
    return frames


def common_mistakes(frames: list[ComparedFrame]) -> list[list[MistakeExplanation]]:
    """Returns the explanations that reproduce every differing frame, grouped as those of the last one."""
    differing = [f.difference for f in frames if not f.difference.equal]
    if not differing:
        return []
    texts = [{e.said for group in d.exact for e in group} for d in differing]
    common = set.intersection(*texts)
    groups = [[e for e in group if e.said in common] for group in differing[-1].exact]
    return [group for group in groups if group]


def _list_intended(a: str, description: Description | None) -> list[IntendedInput]:
    """Returns the intended inputs at a path. Raises UsageError if their description is missing, or given twice."""
    if os.path.isfile(os.path.join(a, "manifest.json")):
        if description is not None:
            raise UsageError(f"{a}: its manifest.json describes the input; leave out --format and the other options")
        described, rows, _ = prepared_files.read_manifest(a)
        return [
            IntendedInput(os.path.join(a, os.path.basename(r["file"])), r["source"], described, r["sha256"])
            for r in rows
        ]
    paths = prepared_files.list_files(a)
    if description is None and not all(_is_raw(p) for p in paths):
        raise UsageError(f"{a}: a picture needs a description; give --format and --size, or --description FILE")
    return [IntendedInput(p, os.path.basename(p), description) for p in paths]


def _is_raw(path: str) -> bool:
    """Returns whether the file's ending is one of raw bytes."""
    return os.path.splitext(path)[1].lower() in reading.RAW


def _list_captured(b: str) -> list[str]:
    """Returns the paths of the captured files at a path."""
    if os.path.isfile(os.path.join(b, "manifest.json")):
        _, rows, _ = prepared_files.read_manifest(b)
        return [os.path.join(b, os.path.basename(r["file"])) for r in rows]
    if os.path.isdir(b):
        names = sorted(n for n in os.listdir(b) if not n.startswith("."))
        return [path for n in names if os.path.isfile(path := os.path.join(b, n))]
    return [b]


def _pair(intended: list[IntendedInput], captured: list[str], a: str, b: str) -> list[tuple[IntendedInput, str]]:
    """Pairs inputs with captures by their names without endings (that of the prepared file, or that of its source). If
    the names do not match, they are paired in order, provided that there are equally many. Raises UsageError
    otherwise."""
    if not intended or not captured:
        raise UsageError(f"{b if intended else a}: contains no files, nothing to compare")
    if len(intended) == len(captured) == 1:
        return [(intended[0], captured[0])]
    by_stem = {_stem(path): path for path in captured}
    for names in ([_stem(i.path) for i in intended], [_stem(i.name) for i in intended]):
        if len(by_stem) == len(captured) and len({*names}) == len(names) and {*names} == by_stem.keys():
            return [(i, by_stem[n]) for i, n in zip(intended, names, strict=True)]
    if len(intended) != len(captured):
        raise UsageError(
            f"inputs in {a}: {len(intended)}, captures in {b}: {len(captured)}, and their names do not match; use the same names, or as many files"
        )
    return list(zip(intended, captured, strict=True))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _open_start(intended: IntendedInput) -> Start:
    """Returns the intended input as the start of a search for mistakes. Raises UsageError or BadFileError if it cannot
    be read, or is not what its manifest states."""
    path, description = intended.path, intended.description
    if description is None:
        return Start("bytes", _read(path, MAX_UNDESCRIBED_BYTES), UNDESCRIBED)
    if intended.sha256 or _is_raw(path):
        data = _read(path, description.size_bytes)
        if intended.sha256 and hashlib.sha256(data).hexdigest() != intended.sha256:
            raise BadFileError(f"{path}: its SHA-256 is not the manifest's; run qverify inputs prepare again")
        try:
            return from_bytes(data, description)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
    if description.resize_order != "before-normalize":
        raise UsageError(
            f"{path}: resize order {description.resize_order} cannot be searched from a picture; "
            "prepare it, and give the folder of `inputs prepare` as A"
        )
    if path.lower().endswith(".npy"):
        return Start("picture", reading.array_pixels(path, description), description)
    rgb = picture.read(path) if description.gray else None
    return Start("picture", picture.read(path, description.gray), description, rgb)


def _size_limit(start: Start) -> int:
    """Returns the size in bytes of the largest capture that is read for this input."""
    if start.wanted is UNDESCRIBED:
        return MAX_UNDESCRIBED_BYTES
    return MAX_SIZE_RATIO * start.wanted.size_bytes + (1 << 20)


def _read_capture(path: str, limit: int) -> bytes:
    """Returns the bytes of a capture; of a .npy file, those of its elements, little-endian."""
    data = _read(path, limit)
    if not path.lower().endswith(".npy"):
        return data
    array = arrays.parse_npy(data, path)
    if not array.size:
        raise UsageError(f"{path}: contains no elements, nothing to compare")
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _read(path: str, limit: int) -> bytes:
    """Returns the content of a regular file. Raises UsageError if it is empty, larger than `limit`, or unreadable."""
    if os.path.isdir(path):
        raise UsageError(f"{path}: a folder; wanted the bytes of an input")
    try:
        handle = open_regular(path, follow=True)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if status.st_size > limit:
                raise UsageError(f"{path}: {status.st_size} bytes; at most {limit} are read for an input of that size")
            data = file.read(limit + 1)
    except BadFileError as error:
        raise UsageError(f"{error}; wanted the bytes of an input") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if not data:
        raise UsageError(f"{path}: empty, nothing to compare")
    return data


def fix(explanation: MistakeExplanation, description: Description | None) -> dict[str, Any]:
    """Returns the keys and values to change in the description `description` so that it describes the mistaken input;
    {} if no description can."""
    if description is None or explanation.recipe.steps:
        return {}
    before, after = (prepared_files.to_table(d) for d in (description, explanation.recipe.wanted))
    return {k: v for k, v in after.items() if before.get(k, DEFAULTS.get(k)) != v}
