"""Writes products of integers: a MatMulInteger of a vector as that of a matrix of one row or column, a MatMul of int32 or
int64 as Mul and ReduceSum."""

from __future__ import annotations

from math import prod

import onnx

from qverify.onnx_model.rewriter import Rewriter

WIDE = (onnx.TensorProto.INT32, onnx.TensorProto.INT64)
MAX_TERMS = 1 << 24  # products of one MatMul, a tensor of their own


def product_of_a_vector(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Reshapes a vector to a matrix of one row or column, and the product to its own dims."""
    a, b = node.input[:2]
    rows, columns = r.dims(a), r.dims(b)
    if min(len(rows), len(columns)) != 1:
        return False
    if len(rows) == 1:
        a = r.step("Reshape", [a, r.ints("row_dims", (1, *rows))], "row")
    if len(columns) == 1:
        b = r.step("Reshape", [b, r.ints("column_dims", (*columns, 1))], "column")
    whole = r.step("MatMulInteger", [a, b, *node.input[2:]], "matrix")
    r.node("Reshape", [whole, r.ints("dims", r.dims(node.output[0]))], node.output[0])
    return None


def product_of_integers(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Multiplies (..., rows, inner, 1) by (..., 1, inner, columns) and adds along inner."""
    a, b = node.input
    if r.kind(a) not in WIDE:
        return False
    left, right, out = r.dims(a), r.dims(b), r.dims(node.output[0])
    rows = left if len(left) > 1 else (1, *left)
    columns = right if len(right) > 1 else (*right, 1)
    terms = prod(out) * left[-1]
    if terms > MAX_TERMS:
        raise r.refusal(f"{terms} products of integers; at most {MAX_TERMS} are supported")
    a = r.step("Reshape", [a, r.ints("rows_dims", (*rows, 1))], "rows")
    b = r.step("Reshape", [b, r.ints("columns_dims", (*columns[:-2], 1, *columns[-2:]))], "columns")
    products = r.step("Mul", [a, b], "products")
    inner = max(len(rows), len(columns)) - 1
    if r.opset < 13:
        sums = r.step("ReduceSum", [products], "sums", axes=[inner], keepdims=0)
    else:
        sums = r.step("ReduceSum", [products, r.ints("inner", [inner])], "sums", keepdims=0)
    r.node("Reshape", [sums, r.ints("dims", out)], node.output[0])
    return None


REPLACED = {("", "MatMulInteger"): product_of_a_vector, ("", "MatMul"): product_of_integers}
