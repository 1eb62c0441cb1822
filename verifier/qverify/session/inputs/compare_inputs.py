"""Compares two prepared inputs, or pictures with bytes captured on the board (INPUTS.md section 6)."""

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

UNDESCRIBED = Description("gray", (1, 1))  # for two files of bytes; only its element type is used
MOST_UNDESCRIBED = 1 << 28
MOST_DESCRIBED = 1 << 30  # bytes of one input
USUAL = {"colour_rounding": "half-away"}  # values where the description states none
LONGER = 16  # a capture of up to this many times the intended size is read


@dataclass(frozen=True, slots=True)
class IntendedInput:
    """An intended input. path: a picture, .npy pixels, or bytes. name: the name that a capture may have. wanted: its
    description, None where unknown. sha256: from a manifest, or ""."""

    path: str
    name: str
    wanted: Description | None
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class ComparedFrame:
    """The difference of one frame. intended, captured: paths. wanted: the description of the intended input."""

    intended: str
    captured: str
    wanted: Description | None
    difference: InputDifference


def compare(
    a: str,
    b: str,
    wanted: Description | None,
    seconds: float,
    watch: Callable[[str, int, int], None] | None = None,
) -> list[ComparedFrame]:
    """Compares one frame after another; mistakes that explained earlier frames are tried first. a: intended inputs. b:
    captures. seconds: for all frames together. Raises UsageError where they cannot be paired or read."""
    ours = _intended(a, wanted)
    for one in ours[:1]:
        if one.wanted is not None and (size := one.wanted.size_bytes) > MOST_DESCRIBED:
            raise UsageError(
                f"an input of {size} bytes; at most {MOST_DESCRIBED} can be compared. Give a smaller --size"
            )
    pairs = _paired(ours, _captured(b), a, b)
    deadline = time.monotonic() + seconds
    frames: list[ComparedFrame] = []
    known: list[MistakeExplanation] = []
    for one, path in pairs:
        start = _start(one)
        captured = _capture(path, _most(start))
        left = max(0.0, deadline - time.monotonic())
        differing = difference.explain_difference(start, captured, left, watch, known)
        known = [e for group in differing.exact for e in group] or known
        frames.append(ComparedFrame(one.path, path, one.wanted, differing))
    return frames


def common_mistakes(frames: list[ComparedFrame]) -> list[list[MistakeExplanation]]:
    """Returns the explanations that reproduce every differing frame, in the groups of the last one."""
    differing = [f.difference for f in frames if not f.difference.equal]
    if not differing:
        return []
    texts = [{e.said for group in d.exact for e in group} for d in differing]
    every = set.intersection(*texts)
    groups = [[e for e in group if e.said in every] for group in differing[-1].exact]
    return [group for group in groups if group]


def _intended(a: str, wanted: Description | None) -> list[IntendedInput]:
    if os.path.isfile(os.path.join(a, "manifest.json")):
        if wanted is not None:
            raise UsageError(f"{a}: its manifest.json describes the input; leave out --format and the other options")
        described, rows, _ = prepared_files.manifest(a)
        return [
            IntendedInput(os.path.join(a, os.path.basename(r["file"])), r["source"], described, r["sha256"])
            for r in rows
        ]
    paths = prepared_files.sources(a)
    if wanted is None and not all(_raw(p) for p in paths):
        raise UsageError(f"{a}: a picture needs a description; give --format and --size, or --description FILE")
    return [IntendedInput(p, os.path.basename(p), wanted) for p in paths]


def _raw(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in reading.RAW


def _captured(b: str) -> list[str]:
    if os.path.isfile(os.path.join(b, "manifest.json")):
        _, rows, _ = prepared_files.manifest(b)
        return [os.path.join(b, os.path.basename(r["file"])) for r in rows]
    if os.path.isdir(b):
        names = sorted(n for n in os.listdir(b) if not n.startswith("."))
        return [path for n in names if os.path.isfile(path := os.path.join(b, n))]
    return [b]


def _paired(ours: list[IntendedInput], theirs: list[str], a: str, b: str) -> list[tuple[IntendedInput, str]]:
    """Pairs inputs and captures by name without its ending (the prepared file's or its source's), else by order if
    there are as many of both."""
    if not ours or not theirs:
        raise UsageError(f"{b if ours else a}: contains no files, nothing to compare")
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])]
    by_stem = {_stem(path): path for path in theirs}
    for names in ([_stem(o.path) for o in ours], [_stem(o.name) for o in ours]):
        if len(by_stem) == len(theirs) and len({*names}) == len(names) and {*names} == by_stem.keys():
            return [(o, by_stem[n]) for o, n in zip(ours, names, strict=True)]
    if len(ours) != len(theirs):
        raise UsageError(
            f"inputs in {a}: {len(ours)}, captures in {b}: {len(theirs)}, and their names do not match; use the same names, or as many files"
        )
    return list(zip(ours, theirs, strict=True))


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _start(one: IntendedInput) -> Start:
    if one.wanted is None:
        return Start("bytes", _file(one.path, MOST_UNDESCRIBED), UNDESCRIBED)
    if one.sha256 or _raw(one.path):
        data = _file(one.path, one.wanted.size_bytes)
        if one.sha256 and hashlib.sha256(data).hexdigest() != one.sha256:
            raise BadFileError(f"{one.path}: its SHA-256 is not the manifest's; run qverify inputs prepare again")
        try:
            return from_bytes(data, one.wanted)
        except UsageError as error:
            raise UsageError(f"{one.path}: {error}") from error
    if one.wanted.resize_order != "before-normalize":
        raise UsageError(
            f"{one.path}: resize order {one.wanted.resize_order} cannot be searched from a picture; "
            "prepare it, and give the folder of `inputs prepare` as A"
        )
    if one.path.lower().endswith(".npy"):
        return Start("picture", reading.array_pixels(one.path, one.wanted), one.wanted)
    rgb = picture.read(one.path) if one.wanted.gray else None
    return Start("picture", picture.read(one.path, one.wanted.gray), one.wanted, rgb)


def _most(start: Start) -> int:
    if start.wanted is UNDESCRIBED:
        return MOST_UNDESCRIBED
    return LONGER * start.wanted.size_bytes + (1 << 20)


def _capture(path: str, limit: int) -> bytes:
    data = _file(path, limit)
    if not path.lower().endswith(".npy"):
        return data
    array = arrays.parse_npy(data, path)
    if not array.size:
        raise UsageError(f"{path}: contains no elements, nothing to compare")
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _file(path: str, limit: int) -> bytes:
    """Returns the content of a regular file. Raises UsageError where it is empty or longer than limit."""
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


def fix(explanation: MistakeExplanation, wanted: Description | None) -> dict[str, Any]:
    """Returns the keys of a description that would have the same effect, with their values; {} where none would."""
    if wanted is None or explanation.recipe.steps:
        return {}
    before, after = (prepared_files.flat(one) for one in (wanted, explanation.recipe.wanted))
    return {k: v for k, v in after.items() if before.get(k, USUAL.get(k)) != v}
