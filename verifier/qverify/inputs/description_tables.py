"""Parses descriptions: TOML and JSON files, options, `--input NAME=FORMAT,KEY=VALUE`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.files import read_regular
from qverify.inputs.colour import PRESETS, Colour
from qverify.inputs.description import Description

MOST_TEXT = 1 << 20  # bytes of a description file


def tables(path: str | None) -> dict[str, dict[str, Any]]:
    """Returns the [inputs.NAME] tables of a TOML file, or of a JSON file of the same form, by name; {} without a file.
    Raises UsageError for any other file."""
    if path is None:
        return {}
    try:
        text = read_regular(path, MOST_TEXT + 1, follow=True).decode("utf-8-sig")
        if len(text) > MOST_TEXT:
            raise UsageError(f"{path}: longer than {MOST_TEXT} bytes")
        content = json.loads(text) if path.lower().endswith(".json") else tomllib.loads(text)
    except BadFileError as error:
        raise UsageError(str(error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not text; wanted a TOML or JSON file with tables [inputs.NAME]") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error
    by_name = content.get("inputs") if isinstance(content, dict) else None
    if not isinstance(by_name, dict) or not by_name or not all(isinstance(t, dict) for t in by_name.values()):
        raise UsageError(f"{path}: wanted tables [inputs.NAME]")
    return {name: _underscored(table, path) for name, table in by_name.items()}


def _underscored(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Returns the table with underscores for dashes in its keys. Raises UsageError where that gives a key twice."""
    renamed: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name in renamed:
            raise UsageError(f"{where}: {name} is given twice")
        renamed[name] = value
    return renamed


def parsed(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parses texts like `data=nv12,train=rgb,mean=1,2,3` into tables by name; a part without `=` continues the value
    before it."""
    by_name: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        if not name or not rest.split(",")[0]:
            raise UsageError(f"--input {text}: wanted NAME=FORMAT,KEY=VALUE,...")
        if name in by_name:
            raise UsageError(f"--input {name} is given twice")
        by_name[name] = _parsed(text, rest.split(","))
    return by_name


def _parsed(text: str, parts: list[str]) -> dict[str, Any]:
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


def described(table: Mapping[str, Any], where: str) -> Description:
    """Returns the description of a TOML or JSON table, or of options. Raises UsageError, which names the wrong key."""
    keys = _underscored(table, where)
    if unknown := keys.keys() - KEYS:
        raise UsageError(f"{where}: unknown key {min(unknown)!r}; known: {', '.join(sorted(KEYS))}")
    if missing := {"format", "size"} - keys.keys():
        raise UsageError(f"{where}: {min(missing)} is missing; give --format and --size, or a description")
    try:
        return _described(_with_defaults(keys))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{where}: {error}") from error


def _with_defaults(keys: dict[str, Any]) -> dict[str, Any]:
    """Returns the table with the profile's defaults for keys that it lacks."""
    from qverify.inputs.profiles import PROFILES, defaults

    profile = str(keys.get("profile", ""))
    if not profile:
        return keys
    if profile not in PROFILES:
        raise UsageError(f"input profile {profile!r}: wanted one of {', '.join(PROFILES)}")
    return defaults(profile, str(keys["format"])) | keys


def _described(keys: dict[str, Any]) -> Description:
    mode = str(keys.pop("mode", "opencv"))
    colour = Colour.preset(mode) if mode in PRESETS else Colour(mode, "full")
    own = {"range": "range", "siting": "siting", "colour_rounding": "rounding"}
    chosen = {own[k]: str(keys.pop(k)) for k in list(keys) if k in own}
    if chosen and mode in PRESETS:
        raise UsageError(f"{min(chosen)}: mode {mode} has its own; give mode bt601 or bt709 to choose it")
    words = {k: keys.pop(k) for k in list(keys) if k in WORDS}
    counts = [k for k in keys if k.endswith("_align") or k in ("fill", "stride")]
    numbers = {k: whole(keys.pop(k), k) for k in counts}
    scaled = _scaled(keys)
    pairs = {k: _size(keys.pop(k), k) for k in ("size", "source") if keys.get(k) is not None}
    quantize, roi = keys.pop("quantize", None), keys.pop("roi", None)
    text = {k: str(v) for k, v in words.items()}
    return Description(
        str(keys.pop("format")),
        pairs["size"],
        colour=replace(colour, **chosen),
        quantize=None if quantize is None else _quantize(quantize),
        roi=None if roi is None else _area(roi),
        source=pairs.get("source"),
        **text,  # type: ignore[arg-type]
        **numbers,  # type: ignore[arg-type]
        **scaled,  # type: ignore[arg-type]
    )


def _scaled(keys: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    """Takes mean and scale out of the table; std is 1 / scale."""
    numbers: dict[str, tuple[float, ...]] = {
        k: tuple(float(x) for x in several(keys.pop(k))) for k in ("mean", "scale", "std") if k in keys
    }
    if "std" in numbers:
        if "scale" in numbers:
            raise ValueError("scale and std mean the same (scale = 1 / std); give one of them")
        if 0 in numbers["std"]:
            raise ValueError("std 0: wanted numbers other than 0")
        numbers["scale"] = tuple(1 / v for v in numbers.pop("std"))
    return numbers


def several(value: Any) -> list[Any]:
    """Returns the items of a list or of a comma-separated text; [value] for anything else."""
    if isinstance(value, str):
        return value.split(",")
    return list(value) if isinstance(value, list | tuple) else [value]


def whole(value: Any, key: str) -> int:
    """Returns a whole number, given as such or in ASCII digits. Raises ValueError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = value.strip() if isinstance(value, str) else ""
    if len(text) < 12 and text.isascii() and text.removeprefix("-").isdigit():
        return int(text)
    raise ValueError(f"{key} {value!r}: wanted a whole number")


def _quantize(value: Any) -> tuple[float, int]:
    parts = several(value)
    if len(parts) != 2:
        raise ValueError(f"quantize {value!r}: wanted SCALE,ZERO")
    zero = parts[1]
    return float(parts[0]), int(zero) if isinstance(zero, float) and zero.is_integer() else whole(zero, "zero point")


def _area(value: Any) -> tuple[int, int, int, int]:
    parts = [whole(v, "roi") for v in several(value)]
    if len(parts) != 4:
        raise ValueError(f"roi {value!r}: wanted x,y,width,height")
    return parts[0], parts[1], parts[2], parts[3]


def _size(value: Any, key: str) -> tuple[int, int]:
    """Parses `224x160` or [224, 160]: width, height."""
    parts = value.lower().split("x") if isinstance(value, str) else list(value)
    if len(parts) != 2:
        raise ValueError(f"{key} {value!r}: wanted WIDTHxHEIGHT")
    return whole(parts[0], key), whole(parts[1], key)
