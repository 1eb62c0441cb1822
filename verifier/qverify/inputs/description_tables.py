"""Parses descriptions of inputs: TOML and JSON files, options, and `--input NAME=FORMAT,KEY=VALUE`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from qverify.closest_names import did_you_mean
from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.inputs.colour import PRESETS, Colour
from qverify.inputs.description import Description

MAX_FILE_BYTES = 1 << 20


OTHERS = ("state", "steps", "outputs", "decoder")  # of sequences, roles of outputs (compare/roles.py), decoders


def read_tables(path: str | None) -> dict[str, dict[str, Any]]:
    """Returns the [inputs.NAME] tables of a TOML file, or of a JSON file of the same form, by name; {} if path is None.
    Raises UsageError for any other file."""
    return {} if path is None else read_description(path)[0]


def read_description(path: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Returns the [inputs.NAME] tables of a TOML or JSON file by name, and its tables of OTHERS as they are, by these names.
    Raises UsageError for a file with none of them."""
    content = read_content(path)
    by_name = content.get("inputs", {})
    others = {name: content[name] for name in OTHERS if name in content}
    if wrong := next((name for name, table in others.items() if not isinstance(table, dict)), ""):
        raise UsageError(f"{path}: {wrong} is not a table; wanted [{wrong}], and its keys below it")
    tables = [*by_name.values(), *others.values()] if isinstance(by_name, dict) else []
    if not tables or not all(isinstance(t, dict) for t in tables):
        raise UsageError(
            f"{path}: wanted tables [inputs.NAME], [outputs.NAME], [decoder]; of a sequence [state] and [steps]"
        )
    return {name: _replace_dashes(table, path) for name, table in by_name.items()}, others


def read_content(path: str) -> dict[str, Any]:
    """Returns the tables of a TOML or JSON file, {} for JSON that is no object."""
    try:
        text = read_regular(path, MAX_FILE_BYTES + 1, follow=True).decode("utf-8-sig")
        if len(text) > MAX_FILE_BYTES:
            raise UsageError(f"{path}: longer than {MAX_FILE_BYTES} bytes")
        content = json.loads(text) if path.lower().endswith(".json") else tomllib.loads(text)
    except BadFileError as error:
        raise UsageError(str(error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not text; wanted a TOML or JSON file with tables [inputs.NAME]") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error
    return content if isinstance(content, dict) else {}


def _replace_dashes(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the table with underscores instead of dashes in its keys. Raises UsageError if a key then occurs
    twice."""
    renamed: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in renamed:
            raise UsageError(f"{where}: {name} is given twice")
        renamed[name] = value
    return renamed


def parse_inputs(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parses texts like `data=nv12,train=rgb,mean=1,2,3` and returns tables by name. A part without `=` continues the
    value before it."""
    by_name: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        if not name or not rest.split(",")[0]:
            raise UsageError(f"--input {text}: wanted NAME=FORMAT,KEY=VALUE,...")
        if name in by_name:
            raise UsageError(f"--input {name} is given twice")
        by_name[name] = _parse_parts(text, rest.split(","))
    return by_name


def _parse_parts(text: str, parts: list[str]) -> dict[str, Any]:
    table, key = {"format": parts[0]}, ""
    for part in parts[1:]:
        if "=" in part:
            key, _, value = part.partition("=")
            key = key.strip().replace("-", "_")
            if key in table:
                raise UsageError(f"--input {text}: {key} is given twice")
            table[key] = value
        elif key:
            table[key] += f",{part}"
        else:
            raise UsageError(f"--input {text}: wanted KEY=VALUE, got {part!r}")
    return table


WORDS = {f.name for f in fields(Description) if isinstance(f.default, str)} - {"format"}
KEYS = {f.name for f in fields(Description)} - {"colour"} | {"mode", "range", "siting", "colour_rounding", "std"}


def parse_description(table: Mapping[str, Any], where: str) -> Description:
    """Returns the description in a TOML or JSON table, or in options. Raises UsageError naming the wrong key."""
    keys = _replace_dashes(table, where)
    if unknown := keys.keys() - KEYS:
        raise UsageError(
            f"{where}: unknown key {min(unknown)!r}; known: {', '.join(sorted(KEYS))}{did_you_mean(min(unknown), KEYS)}"
        )
    if missing := {"format", "size"} - keys.keys():
        raise UsageError(f"{where}: {min(missing)} is missing; give --format and --size, or a description")
    try:
        return _make_description(_with_defaults(keys))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{where}: {error}") from error


def _with_defaults(keys: dict[str, Any]) -> dict[str, Any]:
    """Returns the table with the profile's defaults for missing keys."""
    from qverify.inputs.profiles import PROFILES, defaults

    profile = str(keys.get("profile", ""))
    if not profile:
        return keys
    if profile not in PROFILES:
        raise UsageError(f"input profile {profile!r}: wanted one of {', '.join(PROFILES)}")
    return defaults(profile, str(keys["format"])) | keys


def _make_description(keys: dict[str, Any]) -> Description:
    mode = str(keys.pop("mode", "opencv"))
    colour = Colour.preset(mode) if mode in PRESETS else Colour(mode, "full")
    colour_fields = {"range": "range", "siting": "siting", "colour_rounding": "rounding"}
    chosen = {colour_fields[k]: str(keys.pop(k)) for k in list(keys) if k in colour_fields}
    if chosen and mode in PRESETS:
        raise UsageError(f"{min(chosen)}: mode {mode} has its own; give mode bt601 or bt709 to choose it")
    words = {k: keys.pop(k) for k in list(keys) if k in WORDS}
    counts = [k for k in keys if k.endswith("_align") or k in ("fill", "stride")]
    numbers = {k: _parse_whole(keys.pop(k), k) for k in counts}
    normalization = _pop_normalization(keys)
    pairs = {k: _parse_size(keys.pop(k), k) for k in ("size", "source") if keys.get(k) is not None}
    quantize, roi = keys.pop("quantize", None), keys.pop("roi", None)
    text = {k: str(v) for k, v in words.items()}
    return Description(
        str(keys.pop("format")),
        pairs["size"],
        colour=replace(colour, **chosen),
        quantize=None if quantize is None else _parse_quantize(quantize),
        roi=None if roi is None else _parse_area(roi),
        source=pairs.get("source"),
        **text,  # type: ignore[arg-type]
        **numbers,  # type: ignore[arg-type]
        **normalization,  # type: ignore[arg-type]
    )


def _pop_normalization(keys: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    """Removes mean, scale and std from the table, and returns mean and scale = 1 / std."""
    numbers: dict[str, tuple[float, ...]] = {
        k: tuple(float(x) for x in _split_items(keys.pop(k))) for k in ("mean", "scale", "std") if k in keys
    }
    if "std" in numbers:
        if "scale" in numbers:
            raise ValueError("scale and std mean the same (scale = 1 / std); give one of them")
        if 0 in numbers["std"]:
            raise ValueError("std 0: wanted numbers other than 0")
        numbers["scale"] = tuple(1 / v for v in numbers.pop("std"))
    return numbers


def _split_items(value: Any) -> list[Any]:
    """Returns the items of a list or of a comma-separated text, or [value] for anything else."""
    if isinstance(value, str):
        return value.split(",")
    return list(value) if isinstance(value, list | tuple) else [value]


def _parse_whole(value: Any, key: str) -> int:
    """Returns a whole number that is given as an integer or in ASCII digits. Raises ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if len(text) < 12 and text.isascii() and text.removeprefix("-").isdigit():
        return int(text)
    raise ValueError(f"{key} {value!r}: wanted a whole number")


def _parse_quantize(value: Any) -> tuple[float, int]:
    parts = _split_items(value)
    if len(parts) != 2:
        raise ValueError(f"quantize {value!r}: wanted SCALE,ZERO")
    scale, zero = parts
    if isinstance(zero, float) and zero.is_integer():
        return float(scale), int(zero)
    return float(scale), _parse_whole(zero, "zero point")


def _parse_area(value: Any) -> tuple[int, int, int, int]:
    parts = [_parse_whole(v, "roi") for v in _split_items(value)]
    if len(parts) != 4:
        raise ValueError(f"roi {value!r}: wanted x,y,width,height")
    return parts[0], parts[1], parts[2], parts[3]


def _parse_size(value: Any, key: str) -> tuple[int, int]:
    """Parses `224x160` or [224, 160], and returns width and height."""
    parts = value.lower().split("x") if isinstance(value, str) else list(value)
    if len(parts) != 2:
        raise ValueError(f"{key} {value!r}: wanted WIDTHxHEIGHT")
    return _parse_whole(parts[0], key), _parse_whole(parts[1], key)
