"""The numbers that model.bin stores for the functions of elementwise_integer. The same numbers for C are in
board_runtime/src/ops/integer_functions.h."""

from __future__ import annotations

from typing import NamedTuple


class IntegerFunction(NamedTuple):
    """One function. number: value of the node's word `function`. operands: number of tensors that it reads, 1 to 3."""

    number: int
    operands: int


FUNCTIONS = {
    "add": IntegerFunction(0, 2),
    "sub": IntegerFunction(1, 2),
    "mul": IntegerFunction(2, 2),
    "div": IntegerFunction(3, 2),
    "min": IntegerFunction(4, 2),
    "max": IntegerFunction(5, 2),
    "bitwise_and": IntegerFunction(6, 2),
    "bitwise_or": IntegerFunction(7, 2),
    "bitwise_xor": IntegerFunction(8, 2),
    "neg": IntegerFunction(16, 1),
    "abs": IntegerFunction(17, 1),
    "sign": IntegerFunction(18, 1),
    "bitwise_not": IntegerFunction(19, 1),
    "clip": IntegerFunction(20, 3),
    "equal": IntegerFunction(32, 2),
    "less": IntegerFunction(33, 2),
    "less_or_equal": IntegerFunction(34, 2),
    "greater": IntegerFunction(35, 2),
    "greater_or_equal": IntegerFunction(36, 2),
    "is_nan": IntegerFunction(40, 1),
    "is_inf": IntegerFunction(41, 1),
    "and": IntegerFunction(48, 2),
    "or": IntegerFunction(49, 2),
    "xor": IntegerFunction(50, 2),
    "not": IntegerFunction(51, 1),
}
NAMES = {function.number: name for name, function in FUNCTIONS.items()}
COMPARISONS = ("equal", "less", "less_or_equal", "greater", "greater_or_equal")
LOGIC = ("and", "or", "xor", "not")
CLASSES = ("is_nan", "is_inf")  # functions of float32
