"""Writes the vectors of the shipped arithmetics."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from qverify.arithmetic.forms import Form, FormsOfOps
from qverify.compare.identify.arithmetic_file import read_arithmetic
from qverify.report.learned import Arithmetic, LearnedOp

from scripts.documents.blocks import ROOT
from scripts.vector_files.cases import Found, Network, add_case, check_method, compute, parameters_of
from scripts.vector_files.draw_others import (
    draw_changes,
    draw_concat,
    draw_functions,
    draw_means,
    draw_pairs,
    draw_softmax,
)
from scripts.vector_files.draw_sums import LAYERS, draw, draw_matmul
from scripts.vector_files.drawn import Drawn

FORMAT = 1
SHIPPED, FOLDER = ROOT / "verifier" / "qverify" / "arithmetics", ROOT / "vectors"
MOST_CASES = 7  # of an op
FUNCTIONS = "of a function"
Draw = Callable[[str], Iterator[Drawn]]
DRAWS: dict[str, Draw] = {
    **{op: (lambda dtype, op=op: draw(op, dtype)) for op in LAYERS},
    "matmul": draw_matmul,
    **{op: (lambda dtype, op=op: draw_pairs(op, dtype)) for op in ("add", "mul")},
    **{
        op: (lambda dtype, op=op: draw_means(op, dtype))
        for op in ("average_pool", "global_average_pool", "reduce_mean")
    },
    "lookup": draw_changes,
    "concat": draw_concat,
    "softmax": draw_softmax,
}


def list_shipped() -> list[Path]:
    """Returns the files of the shipped arithmetics."""
    return sorted(SHIPPED.glob("*.toml"))


def path_of(arithmetic: Path) -> Path:
    """Returns the file of the vectors of a shipped arithmetic."""
    return FOLDER / f"{arithmetic.stem}.json"


def function_of(key: str) -> str:
    """Returns the name of the C function for an op, or an op and a kind of nodes."""
    return re.sub(r"\W+", "_", key)


def write_vectors(path: Path) -> str:
    """Returns the text of the vectors of an arithmetic."""
    arithmetic = read_arithmetic(str(path))
    ops: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for stem in dict.fromkeys(key.partition(", ")[0] for key in arithmetic.ops):
        keys = {k: op for k, op in arithmetic.ops.items() if k.partition(", ")[0] == stem}
        for key, found in _find_cases(stem, keys).items():
            if found.cases and not found.unlike:
                ops[key] = _describe(key, keys[key].form, found)
            else:
                left_out[key] = _reason(keys[key], found)
    return _to_text(arithmetic, ops, left_out)


def _find_cases(stem: str, keys: dict[str, LearnedOp]) -> dict[str, Found]:
    every, found = {k: op.form for k, op in keys.items()}, {k: Found() for k in keys}
    forms = FormsOfOps("vectors", {k: Form.parse(form) for k, form in every.items() if form})
    if not forms.forms or stem not in DRAWS:
        return found
    drawn = [one for dtype in ("int8", "uint8") for one in DRAWS[stem](dtype)]
    if f"{stem}, {FUNCTIONS}" in keys:
        drawn += [one for dtype in ("int8", "uint8") for one in draw_functions(dtype)]
    network, of_key = Network(drawn), dict[str, list[Drawn]]()
    for one in drawn:
        of_key.setdefault(network.key_of(one, every), []).append(one)
    for key, some in of_key.items():
        if not every.get(key):
            continue
        done, found[key].refused = compute(_spread(some), forms)
        for computed in done:
            add_case(found[key], computed, every[key])
        check_method(found[key], every[key])
    return found


def _spread(every: list[Drawn]) -> list[Drawn]:
    """Returns at most so many operators as an op has cases: of each kind of scale in turn, of all types and shapes."""
    groups: dict[str, list[Drawn]] = {}
    for one in every:
        groups.setdefault(one.what.rpartition(", ")[2], []).append(one)
    taken: list[Drawn] = []
    while len(taken) < min(MOST_CASES, len(every)):
        for group in groups.values():
            if group and len(taken) < MOST_CASES:
                taken.append(group.pop(-(len(taken) % 2)))
    return sorted(taken, key=every.index)


def _describe(key: str, form: str, found: Found) -> dict[str, Any]:
    described: dict[str, Any] = {"function": function_of(key), "form": form, "parameters": parameters_of(form)}
    return described | {"alike": sorted(found.alike or ()), "cases": found.cases}


def _reason(op: LearnedOp, found: Found) -> str:
    if not op.form:
        nearest = f"; nearest {op.nearest.form}" if op.nearest else ""
        return f"no form is known: {op.why}{nearest}"
    return found.unlike or next(iter(found.refused.values()), "no case is drawn for it")


def _to_text(arithmetic: Arithmetic, ops: dict[str, Any], left_out: dict[str, str]) -> str:
    """Returns the JSON, with each case on a line of its own."""
    head = {"format": FORMAT, "arithmetic": arithmetic.name, "engine": arithmetic.engine, "left_out": left_out}
    lines = [f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}," for k, v in head.items()]
    parts = []
    for key, op in ops.items():
        fields = [f"   {json.dumps(k)}: {json.dumps(v)}," for k, v in op.items() if k != "cases"]
        cases = ",\n".join(f"    {json.dumps(case, separators=(',', ':'))}" for case in op["cases"])
        parts.append("\n".join([f"  {json.dumps(key)}: {{", *fields, f'   "cases": [\n{cases}\n   ]', "  }"]))
    return "\n".join(["{", *lines, ' "ops": {', ",\n".join(parts), " }", "}", ""])
