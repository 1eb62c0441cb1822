"""Checks the rq constants that state a node's own form: that their parameters are in range (NUMERICS.md section 1)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.forms import MOST_LIFTED, MOST_SHIFT, ZERO_BIT
from qverify.arithmetic.linear import is_wide
from qverify.arithmetic.rounding_rules import RULES
from qverify.errors import BadFileError
from qverify.model_bin.graph import Graph, Node

Array = npt.NDArray[Any]
OPS = {  # those with an rq as their last input, and how many operands they have
    **dict.fromkeys(("conv", "conv_transpose", "fully_connected", "matmul", "mul", "add"), 2),
    **dict.fromkeys(("average_pool", "global_average_pool", "reduce_mean"), 1),
}
RULE_BITS = 0x777 | ZERO_BIT
MOST_SUMMAND, MOST_ADDED = 2**30, 2**16  # of the sum of an addition, of a result
WHOLE_IN_FLOAT32 = 2**24


def check_requantization(graph: Graph, node: Node) -> None:
    """Raises BadFileError, which names the node, for an rq with a form of its own that is out of range."""
    rq = graph.constants.get((node.inputs[-1] if node.inputs else None) or "")
    if node.op not in OPS or rq is None:
        return
    names = [n for n in (*node.inputs[: OPS[node.op]], *node.outputs[:1]) if n is not None]
    wrong, wide = "", is_wide(*(graph.tensors[n].dtype for n in names))
    if node.op == "average_pool" and rq.ndim == 2 and (len(rq) in (6, 7) or rq.dtype == np.float32):
        wrong = f"{rq.dtype} {list(rq.shape)}"
    elif node.op == "add":
        if rq.shape in ((3, 5), (4, 5)) and rq.dtype == np.int32:
            wrong = _find_wrong_addition(rq)
        elif rq.shape == (3,) and rq.dtype == np.float64:
            wrong = _find_wrong_rules(rq[2:]) or ("" if np.isfinite(rq).all() else "a scale is not finite")
    elif rq.ndim == 2 and len(rq) in (5, 7) and rq.dtype == np.int32:
        lifted = 0 if wide else MOST_LIFTED
        wrong = _find_wrong_steps(rq, 0, lifted) or ("" if (rq[4] == rq[4, 0]).all() else "its rules differ")
        wrong = wrong or ("" if len(rq) == 5 else _find_wrong_summands(rq[4], rq[6], wide))
    elif rq.ndim == 2 and len(rq) == (4 if rq.dtype == np.float32 else 6) and rq.dtype.kind == "f":
        wrong = _find_wrong_floats(rq, wide)
    elif rq.shape == (1,) and rq.dtype == np.int32:
        wrong = "" if abs(int(rq[0])) <= MOST_ADDED else f"a zero point of {rq[0]}, wanted -65536 to 65536"
    elif rq.ndim == 2 and len(rq) == 2 and rq.dtype == np.float64:
        good = bool((np.isfinite(rq[0]) & (rq[0] > 0)).all())
        wrong = _find_wrong_rules(rq[1]) or ("" if good else "a scale is not finite and positive")
    if wrong:
        raise BadFileError(f"node {node.name!r} ({node.op}): its rq: {wrong}")


def _find_wrong_addition(rq: Array) -> str:
    if (rq[:2, 4] & ZERO_BIT).any():
        return "the zero point counts at the rounding of an operand"
    if len(rq) == 4 and (abs(rq[3, :2].astype(np.int64)) > (MOST_SUMMAND, MOST_ADDED)).any() | rq[3, 2:].any():
        return f"summands of {rq[3].tolist()}, wanted within 2^30 and 65536, and zeros"
    if len(rq) == 4 and rq[2, 4] & ZERO_BIT:
        return "the zero point counts at a rounding with summands"
    return _find_wrong_steps(rq[:2].T, -(2**31) + 1, MOST_LIFTED) or _find_wrong_steps(rq[2:3].T, 0, MOST_LIFTED)


def _find_wrong_summands(rules: Array, after: Array, wide: bool) -> str:
    if wide:
        return "sums of 16 bits have no summands"
    if (rules & ZERO_BIT).any():
        return "the zero point counts at a rounding with summands"
    most = np.abs(after.astype(np.int64)).max()
    return "" if most <= MOST_ADDED else f"{most} is added to a result, wanted at most {MOST_ADDED}"


def _find_wrong_floats(rq: Array, wide: bool) -> str:
    """Returns what is wrong with an rq of float32 [4, C] or float64 [6, C], or ""."""
    scale, before, inside, after, *more = rq
    most = 2**31 if more else WHOLE_IN_FLOAT32
    whole = np.abs(before).max() <= most and np.abs(after).max() <= MOST_ADDED
    if wide:
        return "sums of 16 bits have no summands"
    scales, summands = np.stack([scale, *more[:1]]), np.stack([inside, *more[1:]])
    if not ((np.isfinite(scales) & (scales > 0)).all() and np.isfinite(summands).all()):
        return "a scale is not finite and positive, or a summand not finite"
    with np.errstate(over="ignore"):
        if any((v.astype(np.float32) != v).any() for v in (scales, summands)):
            return "a scale or a summand is not in float32"
    good = whole and (np.rint(before) == before).all() and (np.rint(after) == after).all()
    return "" if good else f"a summand is not whole, or beyond {most} or 65536"


def _find_wrong_steps(rq: Array, least: int, lifted: int) -> str:
    """Returns what is wrong with steps [5, C], or "". least: the least multiplier. lifted: the most bits of a shift to the
    left."""
    limits = (
        ("multiplier", least, 2**31 - 1), ("first shift", -MOST_SHIFT, lifted), ("shift of the product", 0, MOST_SHIFT),
        ("last shift", 0, MOST_SHIFT),
    )  # fmt: skip
    for row, (what, low, high) in zip(rq.astype(np.int64), limits, strict=False):
        if (row < low).any() or (row > high).any():
            return f"a {what} of {row[(row < low) | (row > high)][0]}, wanted {low} to {high}"
    rules = rq[4].astype(np.int64)
    if (rules & ~RULE_BITS).any() or any((rules >> 4 * k & 7 >= len(RULES)).any() for k in range(3)):
        return f"rules of {rules.max():#x}, wanted 0 to {len(RULES) - 1} each"
    return ""


def _find_wrong_rules(codes: Array) -> str:
    good = np.isin(codes, [*range(len(RULES)), *range(8, 8 + len(RULES))]).all() and (codes == codes[0]).all()
    return "" if good else f"a rule of {codes[0]:g}, wanted 0 to 6, or 8 to 14 with the zero point inside, once for all"
