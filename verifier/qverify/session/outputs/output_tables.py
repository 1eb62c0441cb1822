"""How outputs are stored and results are written: options, and the tables [decoder], [outputs.NAME] and [written] of a
description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify.closest_names import did_you_mean
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.inputs.description_tables import read_content
from qverify.outputs.device import Written
from qverify.session.outputs.read_sides import ALL_FORMS, Quantization

KEYS = ("boxes", "normalized", "first_class", "digits", "cut", "columns", "names", "as")
MAX_NAMES_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OutputTables:
    """The tables of a description. decoder, written: keys and values. quantized: scale and zero point, by output."""

    decoder: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    quantized: dict[str, Quantization] = field(default_factory=dict)


def read_output_tables(path: str | None) -> OutputTables:
    """Returns the tables of a TOML or JSON file. Raises UsageError for a file with none of them, or a wrong value."""
    if path is None:
        return OutputTables()
    content = read_content(path)
    decoder, written, outputs = (content.get(name, {}) for name in ("decoder", "written", "outputs"))
    if not all(isinstance(t, dict) for t in (decoder, written, outputs)) or not (decoder or written or outputs):
        raise UsageError(f"{path}: wanted tables [decoder], [written] or [outputs.NAME]")
    quantized = {}
    for name, table in outputs.items():
        if not isinstance(table, dict):
            raise UsageError(f"{path}: outputs.{name}: wanted a table with scale and zero_point")
        if "scale" in table:
            quantized[name] = _read_pair(table["scale"], table.get("zero_point", 0), f"{path}: outputs.{name}")
    return OutputTables(dict(decoder), dict(written), quantized)


def _read_pair(scale: Any, zero: Any, where: str) -> Quantization:
    try:
        scales = tuple(float(s) for s in (scale if isinstance(scale, list) else [scale]))
        zeros = tuple(int(z) for z in (zero if isinstance(zero, list) else [zero]))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{where}: {error}; wanted scale, a number, and zero_point, a whole number") from error
    if len(zeros) == 1:
        zeros *= len(scales)
    return scales, zeros


def parse_quantization(texts: Iterable[str]) -> dict[str, Quantization]:
    """Parses texts like `boxes=0.0123,-5`. Raises UsageError for anything else."""
    quantized: dict[str, Quantization] = {}
    for text in texts:
        name, _, rest = text.rpartition("=")
        scale, _, zero = rest.partition(",")
        if not name or not scale:
            raise UsageError(f"--output {text}: wanted NAME=SCALE,ZERO")
        if name in quantized:
            raise UsageError(f"--output {name} is given twice")
        quantized[name] = _read_pair(scale, zero or 0, f"--output {name}")
    return quantized


def parse_written(text: str, table: Mapping[str, Any]) -> tuple[Written, str]:
    """Returns how results are written, and what arrays are. The text overrides the table. Raises UsageError naming the
    wrong key."""
    values = {key.replace("-", "_"): value for key, value in table.items()}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"--written {text}: wanted KEY=VALUE,..., got {part!r}")
        values[key.strip().replace("-", "_")] = value
    if unknown := values.keys() - set(KEYS):
        raise UsageError(
            f"--written: unknown key {min(unknown)!r}; known: {', '.join(KEYS)}{did_you_mean(min(unknown), KEYS)}"
        )
    form = str(values.get("as", ""))
    if form not in ALL_FORMS:
        raise UsageError(f"--written as={form}: wanted one of {', '.join(ALL_FORMS[1:])}")
    try:
        return _make_written(values), form
    except (TypeError, ValueError) as error:
        raise UsageError(f"--written: {error}") from error


def _make_written(values: Mapping[str, Any]) -> Written:
    from qverify.outputs.forms import FORMS

    boxes = str(values.get("boxes", ""))
    if boxes and boxes not in FORMS:
        raise ValueError(f"boxes {boxes!r}: wanted one of {', '.join(FORMS)}")
    columns = values.get("columns", "")
    return Written(
        boxes,
        _read_flag(values, "normalized"),
        tuple(columns.split(":") if isinstance(columns, str) and columns else columns or ()),
        _read_names(str(values["names"])) if values.get("names") else (),
        int(values.get("digits", -1)),
        int(values.get("first_class", 0)),
        _read_flag(values, "cut"),
    )


def _read_flag(values: Mapping[str, Any], key: str) -> bool:
    text = str(values.get(key, "false")).lower()
    if text not in ("true", "false", "1", "0", "yes", "no"):
        raise ValueError(f"{key} {text!r}: wanted true or false")
    return text in ("true", "1", "yes")


def _read_names(path: str) -> tuple[str, ...]:
    """Returns the class names of a text file, a line each."""
    try:
        text = read_regular(path, MAX_NAMES_BYTES, follow=True).decode("utf-8-sig")
    except (BadFileError, UnicodeDecodeError) as error:
        raise UsageError(f"--written names={path}: {error}") from error
    return tuple(line.strip() for line in text.splitlines() if line.strip())
