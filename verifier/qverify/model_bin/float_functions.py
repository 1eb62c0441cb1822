"""The numbers that model.bin stores for the functions of elementwise_float, reduce_float and variadic_float. The same
numbers for C are in board_runtime/src/ops/float_functions.h."""

from __future__ import annotations

from typing import NamedTuple


class FloatFunction(NamedTuple):
    """One function. number: value of the node's word `function`. operands: number of tensors that it reads, 1 or 2."""

    number: int
    operands: int


FUNCTIONS = {
    "add": FloatFunction(0, 2),
    "sub": FloatFunction(1, 2),
    "mul": FloatFunction(2, 2),
    "div": FloatFunction(3, 2),
    "min": FloatFunction(4, 2),
    "max": FloatFunction(5, 2),
    "pow": FloatFunction(6, 1),
    "prelu": FloatFunction(7, 2),
    "relu": FloatFunction(16, 1),
    "clip": FloatFunction(17, 1),
    "sigmoid": FloatFunction(18, 1),
    "tanh": FloatFunction(19, 1),
    "exp": FloatFunction(20, 1),
    "sqrt": FloatFunction(21, 1),
    "erf": FloatFunction(22, 1),
    "hard_sigmoid": FloatFunction(23, 1),
    "hard_swish": FloatFunction(24, 1),
    "leaky_relu": FloatFunction(25, 1),
    "neg": FloatFunction(26, 1),
    "abs": FloatFunction(27, 1),
    "reciprocal": FloatFunction(28, 1),
    "log": FloatFunction(29, 1),
    "elu": FloatFunction(30, 1),
    "softplus": FloatFunction(31, 1),
    "gelu": FloatFunction(32, 1),
    "selu": FloatFunction(33, 1),
    "celu": FloatFunction(34, 1),
    "thresholded_relu": FloatFunction(35, 1),
    "shrink": FloatFunction(36, 1),
    "mish": FloatFunction(37, 1),
    "softsign": FloatFunction(38, 1),
    "swish": FloatFunction(39, 1),
    "gelu_tanh": FloatFunction(40, 1),
    "floor": FloatFunction(41, 1),
    "ceil": FloatFunction(42, 1),
    "round": FloatFunction(43, 1),
    "sign": FloatFunction(44, 1),
    "sinh": FloatFunction(45, 1),
    "cosh": FloatFunction(46, 1),
    "asinh": FloatFunction(47, 1),
    "acosh": FloatFunction(48, 1),
    "atanh": FloatFunction(49, 1),
    "asin": FloatFunction(50, 1),
    "acos": FloatFunction(51, 1),
    "atan": FloatFunction(52, 1),
    "sin": FloatFunction(53, 1),
    "cos": FloatFunction(54, 1),
    "tan": FloatFunction(55, 1),
    "bfloat16": FloatFunction(56, 1),
}
NAMES = {function.number: name for name, function in FUNCTIONS.items()}

# The index of a name is the value of the word `function` of reduce_float, and of variadic_float.
REDUCTIONS = ("sum", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp")
VARIADIC = ("sum", "mean", "max", "min")
