"""Default onnxruntime without the optimizations that change integers at many users' (those of int8 activations and of float
biases; NchwcTransformer, which ends the process on many models of float16), and with exact products of uint8 by int8 on processors where its own saturate: what reports compare with in tests
of the loader, which must not change a model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from qverify.onnx_model.exact_products import inexact_kernels
from qverify.onnx_model.find_optimizer import KEEPS_INT8, SessionSettings
from qverify.sides import plain_onnxruntime


@contextlib.contextmanager
def exact_default() -> Iterator[None]:
    """Has reports compare with a default onnxruntime that computes the model as it is written within the block."""
    precise = (("session.x64quantprecision", "1"),) if inexact_kernels() else ()
    settings = SessionSettings("all", ("WeightBiasQuantization", "NchwcTransformer"), ((KEEPS_INT8, "1"), *precise))
    with mock.patch.object(plain_onnxruntime, "DEFAULT", settings):
        yield
