"""The numbers of elementwise_float stand in one table, and everything that has a part in a function agrees with it."""

from __future__ import annotations

import re
from pathlib import Path

from qverify.compare.error_bounds import functions as bounds
from qverify.compiler.lowerings import elementwise_float as lowering
from qverify.model_bin.float_functions import FUNCTIONS
from qverify.ops import elementwise_float as page

from scripts.documents.op_pages import FOLDER

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "board_runtime" / "src" / "ops"
TABLE = {name: tuple(function) for name, function in FUNCTIONS.items()}


def test_no_number_stands_for_two_functions() -> None:
    assert len({f.number for f in FUNCTIONS.values()}) == len(FUNCTIONS)


def test_c_has_the_same_table() -> None:
    header = (KERNELS / "float_functions.h").read_text()
    rows = re.findall(r"\bX\((\w+), (\d+), (\d+)\)", header)
    held = {name.lower(): (int(number), int(operands)) for name, number, operands in rows}
    assert held == TABLE, "board_runtime/src/ops/float_functions.h and model_bin/float_functions.py differ"


def test_c_computes_every_function() -> None:
    kernel = (KERNELS / "elementwise_float.c").read_text()
    cases = [name.lower() for name in re.findall(r"case QV_FLOAT_(\w+):", kernel)]
    assert sorted(cases) == sorted(TABLE), "board_runtime/src/ops/elementwise_float.c: one case a function"


def test_the_simulator_computes_every_function() -> None:
    assert {*page.ONE, *page.IN_FLOAT32, *page.TWO} == set(TABLE), "verifier/qverify/ops/elementwise_float.py"
    assert set(page.TWO) == {name for name, f in FUNCTIONS.items() if f.operands == 2}


def test_an_onnx_type_is_lowered_to_every_function() -> None:
    casts = {"bfloat16"}  # two Casts: compiler/lowerings/half_float.py
    assert {*lowering.NAMES.values()} | casts == set(TABLE), "compiler/lowerings/elementwise_float.py: NAMES"


def test_every_function_has_an_error_bound() -> None:
    assert {*bounds.TWO, *bounds.FUNCTIONS} == set(TABLE), "compare/error_bounds/functions.py"


def test_numerics_lists_the_same_numbers() -> None:
    rows = re.findall(r"^- (\d+) (\w+)", (FOLDER / "elementwise_float.md").read_text(), re.MULTILINE)
    documented = {int(number): name for number, name in rows}
    assert documented == {f.number: name for name, f in FUNCTIONS.items()}, "elementwise_float.md, ## Formula"
    assert len(rows) == len(documented)
