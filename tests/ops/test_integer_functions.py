"""The numbers of elementwise_integer stand in one table, and everything that has a part in a function agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

from qverify.compiler.lowerings import elementwise_integer as lowering
from qverify.model_bin.integer_functions import CLASSES, COMPARISONS, FUNCTIONS, LOGIC, NAMES
from qverify.ops import elementwise_integer as page

from scripts.documents.op_pages import FOLDER

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "board_runtime" / "src" / "ops"


def test_no_number_stands_for_two_functions() -> None:
    assert len(NAMES) == len(FUNCTIONS)


def test_c_has_the_same_table() -> None:
    header = (KERNELS / "integer_functions.h").read_text()
    rows = re.findall(r"\bX\((\w+), (\d+), (\d+)\)", header)
    held = {name.lower(): (int(number), int(operands)) for name, number, operands in rows}
    assert held == {name: tuple(f) for name, f in FUNCTIONS.items()}


def test_c_computes_every_function() -> None:
    kernel = (KERNELS / "elementwise_integer.c").read_text()
    named = {name.lower() for name in re.findall(r"QV_INTEGER_([A-Z_]+)\b", kernel)} - {"functions"}
    assert named >= set(FUNCTIONS) - {"is_inf"}, "board_runtime/src/ops/elementwise_integer.c"


def test_the_simulator_computes_every_function() -> None:
    assert {*page.ONE, *page.TWO, "clip"} == set(FUNCTIONS)
    assert set(page.TWO) == {name for name, f in FUNCTIONS.items() if f.operands == 2}
    assert {*COMPARISONS, *LOGIC, *CLASSES} <= set(FUNCTIONS)


def test_an_onnx_type_is_lowered_to_every_function() -> None:
    assert sorted([*lowering.NAMES.values(), *lowering.OF_FLOATS_TOO.values()]) == sorted(FUNCTIONS)


def test_numerics_lists_the_same_numbers() -> None:
    rows = re.findall(r"^- (\d+) ([a-z_]+)", (FOLDER / "elementwise_integer.md").read_text(), re.MULTILINE)
    assert {int(number): name for number, name in rows} == NAMES and len(rows) == len(NAMES)
