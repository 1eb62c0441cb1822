"""Rewrites integer Div and Mod whose divisor may be -1: dividing the lowest integer by -1 makes onnxruntime end the
process."""

from __future__ import annotations

import numpy as np
import onnx

from qverify.onnx_model.decompositions.narrow_integers import in_int32
from qverify.onnx_model.rewriter import Rewriter, attribute

WIDE: dict[int, type] = {
    onnx.TensorProto.INT32: np.int32,
    onnx.TensorProto.INT64: np.int64,
}  # divisions of 8 bits never trap
CHECKED = "/divisors"


def division(r: Rewriter, node: onnx.NodeProto) -> bool | None:
    """Divides integers of 16 bits as int32. Divides by 1 where the divisor is -1, and negates the result of Div there; Mod is 0 for both divisors."""
    if in_int32(r, node) is not False:
        return None
    a, b = node.input
    value = r.value(b)
    safe = CHECKED in b if value is None else not (value == -1).any()
    if r.kind(b) not in WIDE or safe or attribute(node, "fmod", 0):
        return False
    minus_one, one = [r.constant(n, np.array(v, WIDE[r.kind(b)])) for n, v in (("minus_one", -1), ("one", 1))]
    negated = r.step("Equal", [b, minus_one], "by_minus_one")
    divisors = r.step("Where", [negated, one, b], CHECKED[1:])
    if node.op_type == "Mod":
        r.node("Mod", [a, divisors], node.output[0])
        return None
    quotient = r.step("Div", [a, divisors], "quotient")
    r.node("Where", [negated, r.step("Neg", [quotient], "negated_quotient"), quotient], node.output[0])
    return None


REPLACED = {("", "Div"): division, ("", "Mod"): division}
