"""Reads the labels of frames: CSV lines `file,label`, one label a line in the frames' order, or JSON of either."""

from __future__ import annotations

import csv
import os
from typing import Any

from qverify.closest_names import did_you_mean
from qverify.errors import BadFileError, TaskError
from qverify.files import parse_json, read_regular
from qverify.plural import count
from qverify.printable import printable

MAX_BYTES = 1 << 26  # of a file of labels
HEADINGS = ("file", "filename", "file_name", "image", "frame")  # first cells of a line that is none of labels
Label = int | float | str | bool | None | list[Any] | dict[str, Any]


def read_labels(path: str, frames: list[str]) -> list[Label]:
    """Returns the label of each frame. frames: their names, as the report lists them. A name in the file is the name of
    a frame or its last path component. Raises TaskError for a frame without a label, a name that belongs to no frame or
    to several, and two labels for one frame; BadFileError for a file that cannot be read."""
    data = read_regular(path, MAX_BYTES, follow=True)
    if len(data) == MAX_BYTES:
        raise BadFileError(f"--labels {path}: at least {MAX_BYTES} bytes, wanted less")
    labels = _parse_json(data, path) if data.lstrip()[:1] in (b"{", b"[") else _parse_csv(data, path)
    if isinstance(labels, list):
        if len(labels) != len(frames):
            raise TaskError(
                f"--labels {path}: {count(len(labels), 'label')}, wanted one for each of {len(frames)} frames"
            )
        return labels
    return _assign_by_name(labels, path, frames)


def parse_class(label: Label, classes: int, path: str, frame: str) -> int:
    """Returns the number of the class that a label names. Raises TaskError unless it is within 0 to classes - 1."""
    try:
        number = int(label) if isinstance(label, str) else label
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < classes:
        raise TaskError(
            f"--labels {path}: {printable(frame)}: label {printable(str(label))!r}, wanted a class from 0 to {classes - 1}"
        )
    return number


def _parse_json(data: bytes, path: str) -> dict[str, Label] | list[Label]:
    labels = parse_json(data, f"--labels {path}")
    if not isinstance(labels, (dict, list)):
        raise BadFileError(f"--labels {path}: wanted an object of labels by file, or a list")
    return labels


def _parse_csv(data: bytes, path: str) -> dict[str, Label] | list[Label]:
    """Returns the labels by file if every line has two cells, in the order of the frames if every line has one."""
    try:
        lines = data.decode("utf-8-sig").splitlines()
        has_tabs = bool(lines) and all("\t" in line for line in lines if line.strip())
        read = csv.reader(lines, strict=True, delimiter="\t" if has_tabs else ",")
        rows = [[cell.strip() for cell in row] for row in read if row and any(row)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadFileError(f"--labels {path}: wanted UTF-8 lines `file,label`: {error}") from error
    if rows and (rows[0][-1].lower() == "label" or (len(rows[0]) == 2 and rows[0][0].lower() in HEADINGS)):
        rows = rows[1:]
    widths = {len(row) for row in rows}
    if widths == {1}:
        return [row[0] for row in rows]
    if widths != {2}:
        raise BadFileError(f"--labels {path}: wanted `file,label` on every line, or a label on every line")
    labels: dict[str, Label] = {}
    for name, label in rows:
        if name in labels:
            raise TaskError(f"--labels {path}: two labels for {printable(name)!r}; give one")
        labels[name] = label
    return labels


def _assign_by_name(label_by_name: dict[str, Label], path: str, frames: list[str]) -> list[Label]:
    """Returns the labels in the order of the frames. Raises TaskError as read_labels does."""
    numbers: dict[str, list[int]] = {}
    for number, frame in enumerate(frames):
        for name in {frame, os.path.basename(frame)}:
            numbers.setdefault(name, []).append(number)
    labels: dict[int, Label] = {}
    for name, label in label_by_name.items():
        matches = numbers.get(name) or numbers.get(os.path.normpath(name), [])
        if not matches:
            meant = printable(did_you_mean(name, numbers))
            raise TaskError(
                f"--labels {path}: {printable(name)!r} is none of the {count(len(frames), 'frame')} of -i{meant}"
            )
        if len(matches) > 1:
            raise TaskError(
                f"--labels {path}: {printable(name)!r} is the name of {len(matches)} frames; give their paths"
            )
        if matches[0] in labels:
            raise TaskError(f"--labels {path}: two labels for {printable(frames[matches[0]])!r}; give one")
        labels[matches[0]] = label
    if lacking := [frame for number, frame in enumerate(frames) if number not in labels]:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise TaskError(
            f"--labels {path}: no label for {printable(lacking[0])!r}{more}, wanted one for each frame of -i"
        )
    return [labels[number] for number in range(len(frames))]
