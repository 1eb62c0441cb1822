"""Reads what a device's application wrote: detections as JSON, CSV or lines of text, or arrays. Files are untrusted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.errors import UsageError
from qverify.files import make_object
from qverify.outputs.device import DeviceResult, Rows, Written, empty_rows
from qverify.printable import printable

Array = npt.NDArray[Any]
MAX_FILE_BYTES = 1 << 26
MAX_ROWS = 200_000
MAX_NUMBERS = 512  # of one row
INFINITE_SCORE = "a score that is infinite; wanted numbers: a score has an activation, whose result is finite"
IS_NAN = (
    "NaN, which is equal to nothing; wanted numbers: look where the application divides by 0, or leave such rows out"
)
LISTS = (
    "detections",
    "results",
    "predictions",
    "objects",
    "annotations",
    "boxes",
    "faces",
    "items",
    "data",
    "keypoints",
    "classes",
    "output",
    "outputs",
)
BOX = ("box", "bbox", "rect", "xyxy", "xywh", "cxcywh", "location", "bounding_box", "boundingbox", "bndbox")
SCORE = ("score", "confidence", "conf", "prob", "probability", "scores", "confidences")
CLASS = (
    "class",
    "class_id",
    "classid",
    "cls",
    "category_id",
    "category",
    "label",
    "label_id",
    "id",
    "class_index",
    "classes",
    "labels",
    "name",
    "class_name",
    "index",
)
POINTS = ("keypoints", "landmarks", "points", "kps", "landmark")
CORNERS: dict[tuple[str, ...], str] = {
    ("x1", "y1", "x2", "y2"): "xyxy",
    ("xmin", "ymin", "xmax", "ymax"): "xyxy",
    ("x_min", "y_min", "x_max", "y_max"): "xyxy",
    ("left", "top", "right", "bottom"): "xyxy",
    ("cx", "cy", "w", "h"): "cxcywh",
    ("cx", "cy", "width", "height"): "cxcywh",
    ("xc", "yc", "w", "h"): "cxcywh",
    ("x", "y", "w", "h"): "xywh",
    ("x", "y", "width", "height"): "xywh",
    ("left", "top", "width", "height"): "xywh",
    ("x1", "y1", "w", "h"): "xywh",
    ("y1", "x1", "y2", "x2"): "yxyx",
    ("ymin", "xmin", "ymax", "xmax"): "yxyx",
}
NUMBER = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|\b(?:[iI]nf(?:inity)?|INF)\b)")
WORD = re.compile(r"[A-Za-z_][\w.-]*")


class Text(float):
    """A number that remembers how it was written."""

    text: str = ""


def _number(text: str) -> Text:
    value = Text(text)
    if math.isinf(value) and text[-1].isdigit():
        raise ValueError(f"{text[:40]} is not a finite number")
    value.text = text
    return value


@dataclass(slots=True)
class _Row:
    """One result: its numbers, score and class as written; None for what is missing."""

    numbers: list[Any]
    score: Any = None
    label: Any = None
    form: str = ""


def read_text_file(data: bytes, path: str, written: Written, kind: str) -> DeviceResult:
    """Returns the results in the content of a JSON, CSV or text file. kind: key of decoders.KINDS. Raises UsageError in one
    line for anything else."""
    if len(data) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: longer than {MAX_FILE_BYTES} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not text (byte {error.start}); wanted JSON, CSV or lines of numbers") from None
    if kind == "text":
        return DeviceResult(text=_read_recognized(text, path))
    try:
        rows = _read_json(text, kind) if text.lstrip()[:1] in ("[", "{") else _read_lines(text, written, kind)
        if len(rows) > MAX_ROWS:
            raise ValueError(f"more than {MAX_ROWS} rows")
        return DeviceResult(rows=_make_rows(rows, written, kind))
    except (ValueError, RecursionError, TypeError, OverflowError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path}: {printable(message)[:200]}") from None


def read_numbers(data: bytes, path: str) -> Array:
    """Returns the numbers of a JSON list, or of a text with blanks, commas, semicolons or ends of lines between them, float64
    (N,). Raises UsageError in one line for anything else."""
    try:
        text = data.decode("utf-8-sig")
        values = np.array(_parse(text) if text.lstrip()[:1] == "[" else re.split(r"[\s,;]+", text.strip()))
        return np.asarray(values, np.float64).reshape(-1)
    except (ValueError, RecursionError, TypeError, OverflowError) as error:
        message = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise UsageError(f"{path}: wanted a list of numbers: {printable(message)[:200]}") from None


def _read_recognized(text: str, path: str) -> str:
    stripped = text.strip()
    if not stripped.startswith(("{", "[", '"')):
        return stripped
    try:
        content = _parse(stripped)
    except (ValueError, RecursionError):
        return stripped
    while isinstance(content, list) and len(content) == 1:
        content = content[0]
    if isinstance(content, dict):
        content = next((content[k] for k in ("text", "result", "label", "string") if k in content), None)
    if not isinstance(content, str):
        raise UsageError(f"{path}: wanted a text, or JSON with a key text")
    return content


def _read_constant(text: str) -> Any:
    """Reads Infinity and -Infinity, which are no JSON but what many libraries write of a float32 that overflowed."""
    if text == "NaN":
        raise ValueError(IS_NAN)
    return _number(text)


def _parse(text: str) -> Any:
    return json.loads(
        text, parse_float=_number, parse_int=_number, parse_constant=_read_constant, object_pairs_hook=make_object
    )


def _read_json(text: str, kind: str) -> list[_Row]:
    content = _parse(text)
    if kind == "keypoints":
        content = _spread_points(content)
    while isinstance(content, dict):
        keys = {key.lower(): key for key in content}
        box = next((keys[k] for k in (*BOX, "boxes") if k in keys), None)
        if box is not None and _is_table(content[box]):
            return _read_columns(content, keys, box)
        inner = next((keys[k] for k in LISTS if k in keys and isinstance(content[keys[k]], list | dict)), None)
        lists = [k for k, v in content.items() if isinstance(v, list | dict)]
        if inner is None and len(lists) != 1:
            raise ValueError(
                f"an object with {', '.join(list(content)[:8]) or 'no keys'}; wanted a list of results, or boxes, scores, classes"
            )
        content = content[lists[0] if inner is None else inner]
    if not isinstance(content, list):
        raise ValueError("wanted a list of results")
    if len(content) == 1 and isinstance(content[0], list) and content[0] and isinstance(content[0][0], list | dict):
        content = content[0]
    return [_read_item(item) for item in content]


def _spread_points(content: Any) -> Any:
    """Returns the points of one object that holds all of them, as a list of one each: [[x, y, score], ...] under a key of
    POINTS, with or without scores of their own, or x, y, score, x, y, score, ... (COCO). Raises ValueError for several
    objects; other content as it is."""
    items = content if isinstance(content, list) else [content]
    found = [item for item in items if isinstance(item, dict) and any(key.lower() in POINTS for key in item)]
    if not found or len(found) < len(items):
        return content
    if len(found) > 1:
        raise ValueError(f"{len(found)} objects with keypoints; wanted one set of keypoints, as the decoder gives")
    (item,) = found
    points = next(value for key, value in item.items() if key.lower() in POINTS)
    scores = next((v for k, v in item.items() if "score" in k.lower() and isinstance(v, list)), None)
    if not isinstance(points, list):
        raise ValueError("keypoints that are no list; wanted [[x, y, score], ...] or x, y, score, x, y, score, ...")
    if points and not any(isinstance(point, list | dict) for point in points):
        if len(points) % 3:
            raise ValueError(f"{len(points)} numbers of keypoints; wanted x, y, score of each, or [[x, y], ...]")
        points = [points[at : at + 3] for at in range(0, len(points), 3)]
    if scores is not None and len(scores) == len(points) and all(isinstance(p, list) and len(p) == 2 for p in points):
        points = [[*point, score] for point, score in zip(points, scores, strict=True)]
    return points


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and (not value or isinstance(value[0], list))


def _read_columns(content: dict[str, Any], keys: dict[str, str], box: str) -> list[_Row]:
    rows = [_Row(_flatten(item)) for item in content[box]]
    for names, field_name in ((SCORE, "score"), (CLASS, "label"), (POINTS, "points")):
        key = next((keys[k] for k in (*(f"{n}s" for n in names), *names) if k in keys and keys[k] != box), None)
        if key is None:
            continue
        values = content[key]
        if not isinstance(values, list) or len(values) != len(rows):
            raise ValueError(f"{len(rows)} {box}, but {key} is no list of as many")
        for row, value in zip(rows, values, strict=True):
            if field_name == "points":
                row.numbers += _flatten(value)
            else:
                setattr(row, field_name, value)
    return rows


def _read_item(item: Any) -> _Row:
    if isinstance(item, list):
        return _Row(_flatten(item), form="list")
    if not isinstance(item, dict):
        return _Row([], label=item)
    keys = {key.lower(): key for key in item}
    score = next((item[keys[k]] for k in SCORE if k in keys), None)
    label = next((item[keys[k]] for k in CLASS if k in keys and not isinstance(item[keys[k]], list | dict)), None)
    numbers, form = _find_box(item, keys)
    points = next((item[keys[k]] for k in POINTS if k in keys), None)
    if points is not None:
        numbers = numbers + _flatten(points)
    elif not numbers and "x" in keys and "y" in keys:
        numbers = [item[keys["x"]], item[keys["y"]]]
    if form == "" and "category_id" in keys and "bbox" in keys:
        form = "xywh"  # of COCO's results
    return _Row(numbers, score, label, form)


def _find_box(item: dict[str, Any], keys: dict[str, str]) -> tuple[list[Any], str]:
    for names, form in CORNERS.items():
        if all(name in keys for name in names):
            return [item[keys[name]] for name in names], form
    key = next((k for k in BOX if k in keys), None)
    if key is None:
        return [], ""
    value = item[keys[key]]
    if isinstance(value, dict):
        inner, form = _find_box(value, {k.lower(): k for k in value})
        if not inner:
            raise ValueError(f"{keys[key]} has keys {', '.join(list(value)[:8])}; wanted x1, y1, x2, y2 or x, y, w, h")
        return inner, form
    return _flatten(value), key if key in ("xyxy", "xywh", "cxcywh") else ""


def _flatten(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    flat = [v for item in value for v in (_flatten(item) if isinstance(item, list | dict) else [item])]
    if len(flat) > MAX_NUMBERS:
        raise ValueError(f"more than {MAX_NUMBERS} numbers in one result")
    return flat


def _read_lines(text: str, written: Written, kind: str) -> list[_Row]:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "//"))]
    if not lines:
        return []
    if "=" in lines[0] or "@" in lines[0]:
        return [_read_named_line(line) for line in lines]
    cells = [_split(line) for line in lines]
    if any(cell.strip("+-").lower() == "nan" for row in cells for cell in row):
        raise ValueError(IS_NAN)
    header = [c.lower().strip('"') for c in cells[0]]
    names: Sequence[str] = written.columns
    if not all(NUMBER.fullmatch(c) for c in header) and any(
        h in (*SCORE, *CLASS, "x1", "x", "cx", "xmin", "left") for h in header
    ):
        names, cells = header, cells[1:]
    return [_read_cells(row, names or _guess_columns(cells, kind)) for row in cells]


def _split(line: str) -> list[str]:
    for separator in (",", ";", "\t"):
        if separator in line:
            return [c.strip() for c in line.split(separator)]
    return line.split()


def _guess_columns(cells: list[list[str]], kind: str) -> list[str]:
    """Returns the columns of lines without names: the class first if the first column are whole numbers or words and the
    last are not; the score is the other column whose values are all within 0 to 1."""
    width = len(cells[0])
    plain = {
        ("keypoints", 3): ["x", "y", "score"],
        ("keypoints", 4): ["class", "x", "y", "score"],
        ("classes", 1): ["class"],
    }
    plain |= {("keypoints", 2): ["x", "y"], ("classes", 2): ["class", "score"]}
    if (kind, width) in plain:
        return plain[kind, width]
    if width < 4:
        raise ValueError(f"{width} columns; wanted four numbers of a box, a score and a class; state columns=")
    whole = [
        all(re.fullmatch(r"[-+]?\d+", r[at]) or WORD.fullmatch(r[at]) for r in cells if len(r) > at)
        for at in range(width)
    ]
    share = [
        all(NUMBER.fullmatch(r[at]) and 0 <= float(r[at]) <= 1 for r in cells if len(r) > at) for at in range(width)
    ]
    if width == 4:
        return ["b0", "b1", "b2", "b3"]
    if width == 5:
        return ["class", "b0", "b1", "b2", "b3"] if whole[0] and not share[4] else ["b0", "b1", "b2", "b3", "score"]
    points = [f"p{at}" for at in range(width - 6)]
    if whole[0] and share[1] and not (share[5] and not share[2]):
        return ["class", "score", "b0", "b1", "b2", "b3", *points]
    if whole[0] and share[5] and not (whole[5] and not whole[0]):
        return ["class", "b0", "b1", "b2", "b3", "score", *points]
    return ["b0", "b1", "b2", "b3", "score", "class", *points]


def _read_cells(cells: list[str], names: Sequence[str]) -> _Row:
    if len(cells) != len(names):
        raise ValueError(f"a line of {len(cells)} columns, wanted {len(names)}: {' '.join(cells)[:60]}")
    item: dict[str, Any] = {}
    extra: list[Any] = []
    for name, cell in zip(names, cells, strict=True):
        value: Any = _number(cell) if NUMBER.fullmatch(cell) else cell.strip('"')
        if re.fullmatch(r"p\d+|[xy]\d+|(kp|lm|landmark)_?\w*", name) and name not in ("x1", "y1", "x2", "y2"):
            extra.append(value)
        else:
            item[name] = value
    plain = [item.pop(f"b{at}") for at in range(4)] if "b0" in item else None
    row = _read_item(item)
    if plain is not None:
        row.numbers = plain
    row.numbers = row.numbers + extra
    return row


def _read_named_line(line: str) -> _Row:
    """Reads `class=3, score=0.9, box=(1, 2, 3, 4)` or `person @ (1 2 3 4) 0.9`."""
    if "=" in line:
        return _read_item(_from_groups(line))
    label, _, rest = line.partition("@")
    numbers = [_number(v) for v in NUMBER.findall(rest)]
    if len(numbers) < 4:
        raise ValueError(f"wanted a box of four numbers: {line[:60]}")
    word = label.strip().rstrip(":")
    known = re.fullmatch(r"(?:class|cls|label)?[ _#]?(\d+)", word)
    label_value: Any = _number(known.group(1)) if known else word
    score = numbers[4] if len(numbers) > 4 else None
    return _Row([*numbers[:4], *numbers[5:]], score, label_value)


def _from_groups(line: str) -> dict[str, Any]:
    """Returns NAME=VALUE and NAME=(...) of a line."""
    found: dict[str, Any] = {}
    for match in re.finditer(r"(\w+)\s*=\s*(?:[\[(]([^\])]*)[\])]|([^\s,;]+))", line):
        name, group, value = match.groups()
        if group is not None:
            found[name] = [_number(v) for v in NUMBER.findall(group)]
        else:
            found[name] = _number(value) if NUMBER.fullmatch(value) else value
    return found


def _make_rows(rows: list[_Row], written: Written, kind: str) -> Rows:
    if not rows:
        return empty_rows()
    width = 0 if kind == "classes" else 2 if kind == "keypoints" else 4
    parsed = [_place(row, width) for row in rows]
    numbers = [[_real(v) for v in row.numbers] for row in parsed]
    if len({len(n) for n in numbers}) != 1 or len(numbers[0]) < width:
        raise ValueError(
            f"results with {sorted({len(n) for n in numbers})} numbers; wanted {width or 'no'} coordinates of each"
        )
    scores = [row.score for row in parsed]
    if any(s is None for s in scores) and any(s is not None for s in scores):
        raise ValueError("some results have a score, and some do not")
    if any(isinstance(s, float) and math.isinf(s) for s in scores):
        raise ValueError(INFINITE_SCORE)
    forms = {row.form for row in parsed if row.form not in ("", "list")}
    classes, names = _read_labels([row.label for row in parsed], written)
    written_numbers = [v for row in parsed for v in row.numbers], scores
    return Rows(
        np.array(numbers, np.float64).reshape(len(rows), -1),
        None if scores[0] is None else np.array([_real(s) for s in scores], np.float64),
        classes,
        names,
        (_count(written_numbers[0], _decimals), _count(scores, _decimals)),
        forms.pop() if len(forms) == 1 else "",
        (_count(written_numbers[0], _significant), _count(scores, _significant)),
    )


def _place(row: _Row, width: int) -> _Row:
    """Returns a row of a plain list with its score and class in their places: after the coordinates."""
    if row.form != "list" or row.score is not None or row.label is not None:
        return row
    numbers = row.numbers
    if width == 0:
        return _Row([], numbers[1] if len(numbers) > 1 else None, numbers[0] if numbers else None)
    rest = numbers[width:]
    return _Row(numbers[:width] + rest[2:], rest[0] if rest else None, rest[1] if len(rest) > 1 else None)


def _read_labels(labels: list[Any], written: Written) -> tuple[Array | None, tuple[str, ...] | None]:
    if any(label is None for label in labels):
        return None, None
    if written.names and all(isinstance(label, str) for label in labels):
        known = {name: at for at, name in enumerate(written.names)}
        missing = next((label for label in labels if label not in known), None)
        if missing is not None:
            raise ValueError(f"class {missing[:40]!r} is not in the list of names")
        return np.array([known[label] + written.first_class for label in labels], np.int64), None
    if all(isinstance(label, str) for label in labels):
        parsed = [re.fullmatch(r"(?:class|cls|label)?[ _#]?(\d{1,9})", label) for label in labels]
        if all(parsed):
            return np.array([int(m.group(1)) for m in parsed if m], np.int64), None
        return None, tuple(labels)
    numbers = [_real(label) for label in labels]
    if any(not math.isfinite(n) or n != int(n) or abs(n) > 1 << 31 for n in numbers):
        raise ValueError("a class that is no whole number")
    return np.array(numbers, np.int64), None


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, float | int):
        nan = isinstance(value, str) and value.strip("+-").lower() == "nan"
        raise ValueError(IS_NAN if nan else f"{str(value)[:40]!r} where a number is wanted")
    return float(value)


def _count(values: list[Any], measure: Callable[[str], int]) -> int | None:
    """Returns the most decimals or significant digits that were written, None if values are not text."""
    texts = [v.text for v in values if isinstance(v, Text) and math.isfinite(v)]
    return max((measure(t) for t in texts), default=None)


def _significant(text: str) -> int:
    mantissa = text.lower().partition("e")[0].lstrip("+-")
    digits = mantissa.replace(".", "").lstrip("0")
    return len(digits if "." in mantissa else digits.rstrip("0")) or 1


def _decimals(text: str) -> int:
    mantissa, _, exponent = text.lower().partition("e")
    after = len(mantissa.partition(".")[2].rstrip("0"))
    return max(0, after - (int(exponent[:6]) if exponent else 0))
