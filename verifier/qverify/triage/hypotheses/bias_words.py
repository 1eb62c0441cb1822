"""The bias is read as an array of another integer type: halves of its elements, or two in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summed_elements import BIASED, SummedElements, bias_of, fitting, has_bias
from qverify.triage.case import Array, Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.linear_sums import linear

NAME = "bias-words"
OPS = ("conv", "conv_transpose", "fully_connected")
LATE = -1


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op in BIASED and linear(case) is not None and has_bias(case):
        yield from fitting(case, _ways(case), bits=0.5)


def _ways(case: Case) -> Iterator[tuple[str, Callable[[SummedElements], Array]]]:
    bias = case.graph.constants[case.last.inputs[2] or ""]
    bits = 8 * bias.dtype.itemsize
    for width in (32, 16, 8):
        if width < bits:
            for kind, name in (("i", "int"), ("u", "uint")):
                parts = bits // width
                text = f"the bias, int{bits}, is read as an array of {name}{width}: "
                text += (
                    "channel 2k gets the low half of bias k, channel 2k+1 its high half"
                    if parts == 2
                    else f"channel o gets part o mod {parts} of bias o div {parts}, the lowest first"
                )
                yield text, partial(_read, dtype=f"<{kind}{width // 8}", step=1)
                yield (
                    f"the bias, int{bits}, is read as {name}{width}: only its lowest {width} bits count",
                    partial(_read, dtype=f"<{kind}{width // 8}", step=parts),
                )
    yield (
        "the bytes of the bias are read in the other order (big-endian)",
        partial(_read, dtype=f">i{bits // 8}", step=1),
    )
    if bits < 64:
        text = f"the bias, int{bits}, is read as an array of int{2 * bits}: channel o gets biases 2o and 2o+1 as one number"
        yield f"{text} (beyond the end 0)", partial(_read, dtype=f"<i{bits // 4}", step=1)
        yield (
            "every second bias is read: channel o gets bias 2o (beyond the end 0)",
            partial(_read, dtype=f"<i{bits // 8}", step=2),
        )


def _read(e: SummedElements, dtype: str, step: int) -> Array:
    bias = e.case.graph.constants[e.case.last.inputs[2] or ""]
    raw = np.ascontiguousarray(bias).tobytes()
    words = np.frombuffer(raw[: len(raw) // int(dtype[2:]) * int(dtype[2:])], np.dtype(dtype))[::step].astype(np.int64)
    bias = np.concatenate([words, np.zeros(len(bias_of(e.case)), np.int64)])[e.channel]
    total = e.acc - e.bias + bias
    return e.requantized(total if e.sums.wide else total.astype(np.int32).astype(np.int64))
