"""Reads and checks the rows of capture.json: frames with their sides, and the layouts of tensors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

from qverify.printable import printable
from qverify.tensors.placement import Placement
from qverify.tensors.spec import TensorSpec

MAX_MODEL_BYTES = 1 << 31
MAX_PADDING = 4096  # elements by which a dim may be padded, besides its own size
SIDES = ("reference", "simulator", "board")
OTHER_SIDES = (*SIDES, "float", "dump")
MAX_ENGINES = 16  # further sides of a frame: every two sides are compared
ENGINE_SIDE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
MAX_NODES = 100_000
DTYPES = ("float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "float64", "bool", "float16")
FORMS = ("float16", "float32", "float64", "bool", *(f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)))


def check_frame(row: dict[str, Any], specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    """Returns the row of a frame. Raises ValueError, KeyError or TypeError for one that is not of the format, or contradicts
    itself. specs: the specs of the capture."""
    whole_number(row["frame"])
    if not isinstance(row["source"], str) or not isinstance(row.get("why", ""), str):
        raise ValueError("source or why of a frame")
    if unknown := [side["side"] for side in row["sides"] if not _is_side(side)]:
        raise ValueError(f"side {unknown[0]!r}")
    if sum(side.get("is_engine") is True for side in row["sides"]) > MAX_ENGINES:
        raise ValueError(f"more than {MAX_ENGINES} engines")
    labels = [side["label"] for side in row["sides"]]
    if labels != [side["side"] for side in row["sides"]] or len(set(labels)) != len(labels):
        raise ValueError(f"sides labelled {labels}")
    for side in row["sides"]:
        for pair in side["tensors"].values():
            part, digest = pair
            if not isinstance(part, int | None) or not isinstance(digest, str | None) or isinstance(part, bool):
                raise ValueError(f"tensor {pair!r}")
        for key, kind in {"missing": dict, "settings": dict, "link": dict, "finals": list, "notes": list}.items():
            if not isinstance(side[key], kind):
                raise ValueError(f"{key} of a side")
        _check_consistent(side, specs)
    if not all(isinstance(row.get(key, {}), dict) for key in ("repeat", "other_inputs")):
        raise ValueError("repeat or other_inputs of a frame")
    if not isinstance(row.get("experiments", []), list):
        raise ValueError("experiments of a frame")
    for item in row["inputs"]:
        if not {"name", "part", "sha256", "source", "seed"} <= item.keys():
            raise ValueError("an input")
    names = [str(item["name"]) for item in row["inputs"]]
    if len(set(names)) != len(names):
        raise ValueError(f"two inputs of one name among {names}")
    return row


def is_engine_side(name: Any) -> bool:
    """Returns whether this may be the name of an engine that is a further side."""
    return isinstance(name, str) and ENGINE_SIDE.fullmatch(name) is not None and name not in OTHER_SIDES


def _is_side(row: Mapping[str, Any]) -> bool:
    """Returns whether the row is one of SIDES, or of an engine that is a further side of its own name."""
    if row.get("is_engine", False) is not True:
        return row["side"] in SIDES
    return is_engine_side(row["side"])


def read_placement(row: Mapping[str, Any]) -> tuple[Placement, ...]:
    """Returns where the nodes of a side ran. Raises ValueError, KeyError or TypeError for rows that are not of the format."""
    rows = row.get("placement", [])
    if not isinstance(rows, list) or len(rows) > MAX_NODES:
        raise ValueError("placement of a side")
    return tuple(_read_placed(item) for item in rows)


def _read_placed(item: Mapping[str, Any]) -> Placement:
    node, op, on, kernel = (printable(str(item[key])) for key in ("node", "op", "on", "kernel"))
    return Placement(node, op, on, kernel, item["fallback"] is True, whole_number(item["nodes"]))


def _check_consistent(side: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> None:
    """Raises ValueError for a side that contradicts itself, or that would exclude one of its tensors from the
    comparison."""
    for name in (*side["tensors"], *side["missing"]):
        if name in specs and specs[name].interior:
            raise ValueError(f"{name!r} is a tensor of the {side['side']} and flagged interior")
    if both := side["tensors"].keys() & side["missing"].keys():
        raise ValueError(f"{min(both)!r} is a tensor of the {side['side']} and missing there")


def whole_number(value: Any) -> int:
    """Returns the value. Raises ValueError unless it is an integer of at least 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def make_form(name: str, row: Mapping[str, Any]) -> TensorSpec:
    """Returns the spec of a tensor that a runner gave in another form than the model's. Raises ValueError or KeyError."""
    shape = tuple(whole_number(d) for d in row["shape"])
    if row["dtype"] not in FORMS or prod(shape) > MAX_MODEL_BYTES:
        raise ValueError(f"the form of {name!r}")
    return TensorSpec(name, row["dtype"], shape)


def make_spec(name: str, row: dict[str, Any]) -> TensorSpec:
    """Returns the spec of a tensor of the capture. Raises ValueError, KeyError or TypeError."""
    shape, aligned = (tuple(whole_number(d) for d in row[k]) for k in ("shape", "aligned_shape"))
    scale, zero = tuple(float(v) for v in row["scale"]), tuple(int(v) for v in row["zero_point"])
    fits = len(shape) == len(aligned) and all(
        n <= m <= 2 * n + MAX_PADDING for n, m in zip(shape, aligned, strict=True)
    )
    if row["dtype"] not in DTYPES or not fits or len(scale) != len(zero) or prod(aligned) > MAX_MODEL_BYTES:
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
