"""Default onnxruntime without the optimizations that change integers at many users' (those of int8 activations and of float
biases; NchwcTransformer, which ends the process on many models of float16), and with exact products of uint8 by int8 on
processors where its own saturate: what reports compare with in tests of the loader, which must not change a model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from unittest import mock

import onnx
from qverify.onnx_model.exact_products import inexact_kernels, with_exact_products
from qverify.onnx_model.find_optimizer import KEEPS_INT8, SessionSettings
from qverify.onnx_model.light_model import light_model, with_data
from qverify.sides import plain_onnxruntime, reference

from tests.processors import INEXACT_IN_CHILDREN

KEEPS_INTEGERS = SessionSettings("all", ("WeightBiasQuantization", "NchwcTransformer"), ((KEEPS_INT8, "1"),))
# Integer operators read shifted operands, and the optimizer that makes more of them keeps to the precise ones (it refuses
# models that have int8 activations, too).
PRECISE = SessionSettings(KEEPS_INTEGERS.level, KEEPS_INTEGERS.disabled, (("session.x64quantprecision", "1"),))


def _inexact_in_children() -> frozenset[str]:
    """Returns the operators whose products saturate where default onnxruntime runs: in a child of this process."""
    told = os.environ.get(INEXACT_IN_CHILDREN)
    return inexact_kernels() if told is None else frozenset(told.split())


class _ExactOnnxruntime(plain_onnxruntime.PlainOnnxruntime):
    def __init__(self, model: bytes):
        exact = with_exact_products(light_model(onnx.ModelProto.FromString(model)), _inexact_in_children())
        super().__init__(with_data(exact.model, exact.constants).SerializeToString())

    def run(self, feed, names, settings=None):  # type: ignore[no-untyped-def]
        precise = super().run(feed, names, settings or PRECISE)
        return super().run(feed, names, KEEPS_INTEGERS) if isinstance(precise, str) and not settings else precise


@contextlib.contextmanager
def exact_default() -> Iterator[None]:
    """Has reports compare with a default onnxruntime that computes the model as it is written within the block."""
    if _inexact_in_children():
        with mock.patch.object(reference, "PlainOnnxruntime", _ExactOnnxruntime):
            yield
    else:
        with mock.patch.object(plain_onnxruntime, "DEFAULT", KEEPS_INTEGERS):
            yield
