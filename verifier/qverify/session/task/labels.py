"""Reads the labels of frames: CSV lines `file,label`, one label a line in the frames' order, or JSON of either."""

from __future__ import annotations

import csv
import os
from typing import Any

from qverify.closest_names import closest_names
from qverify.errors import BadFileError, TaskError
from qverify.files import parse_json, read_regular
from qverify.plural import count
from qverify.printable import printable

MOST = 1 << 26  # bytes of the file
Label = int | float | str | bool | None | list[Any] | dict[str, Any]


def labels_of(path: str, frames: list[str]) -> list[Label]:
    """Returns the label of each frame. frames: their names, as the report lists them. A name of the file is a frame's
    name or the last part of it. TaskError for a frame without a label, a name that is no frame's or several frames', and
    two labels for one frame; BadFileError for a file that cannot be read."""
    data = read_regular(path, MOST, follow=True)
    if len(data) == MOST:
        raise BadFileError(f"--labels {path}: at least {MOST} bytes, wanted less")
    found = _json(data, path) if data.lstrip()[:1] in (b"{", b"[") else _csv(data, path)
    if isinstance(found, list):
        if len(found) != len(frames):
            raise TaskError(
                f"--labels {path}: {count(len(found), 'label')}, wanted one for each of {len(frames)} frames"
            )
        return found
    return _by_name(found, path, frames)


def class_of(label: Label, classes: int, path: str, frame: str) -> int:
    """Returns the label as a class. TaskError where it is none of 0 to classes - 1."""
    try:
        number = int(label) if isinstance(label, str) else label
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < classes:
        raise TaskError(
            f"--labels {path}: {printable(frame)}: label {printable(str(label))!r}, wanted a class from 0 to {classes - 1}"
        )
    return number


def _json(data: bytes, path: str) -> dict[str, Label] | list[Label]:
    found = parse_json(data, f"--labels {path}")
    if not isinstance(found, (dict, list)):
        raise BadFileError(f"--labels {path}: wanted an object of labels by file, or a list")
    return found


def _csv(data: bytes, path: str) -> dict[str, Label] | list[Label]:
    """Returns labels by file where every line has two cells, in order where every line has one."""
    try:
        lines = data.decode("utf-8-sig").splitlines()
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines, strict=True) if row and any(row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadFileError(f"--labels {path}: wanted UTF-8 lines `file,label`: {error}") from error
    if rows and rows[0][-1].lower() == "label":
        rows = rows[1:]
    wide = {len(row) for row in rows}
    if wide == {1}:
        return [row[0] for row in rows]
    if wide != {2}:
        raise BadFileError(f"--labels {path}: wanted `file,label` on every line, or a label on every line")
    labels: dict[str, Label] = {}
    for name, label in rows:
        if name in labels:
            raise TaskError(f"--labels {path}: two labels for {printable(name)!r}; give one")
        labels[name] = label
    return labels


def _by_name(found: dict[str, Label], path: str, frames: list[str]) -> list[Label]:
    numbers: dict[str, list[int]] = {}
    for number, frame in enumerate(frames):
        for name in {frame, os.path.basename(frame)}:
            numbers.setdefault(name, []).append(number)
    labels: dict[int, Label] = {}
    for name, label in found.items():
        same = numbers.get(name) or numbers.get(os.path.normpath(name), [])
        if not same:
            near = closest_names(name, numbers, 1)
            meant = f"; did you mean {printable(near[0])!r}?" if near else ""
            raise TaskError(
                f"--labels {path}: {printable(name)!r} is none of the {count(len(frames), 'frame')} of -i{meant}"
            )
        if len(same) > 1:
            raise TaskError(f"--labels {path}: {printable(name)!r} is the name of {len(same)} frames; give their paths")
        if same[0] in labels:
            raise TaskError(f"--labels {path}: two labels for {printable(frames[same[0]])!r}; give one")
        labels[same[0]] = label
    if lacking := [frame for number, frame in enumerate(frames) if number not in labels]:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise TaskError(
            f"--labels {path}: no label for {printable(lacking[0])!r}{more}, wanted one for each frame of -i"
        )
    return [labels[number] for number in range(len(frames))]
