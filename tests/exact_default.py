"""Default onnxruntime with exact products of uint8 by int8, on processors where its own saturate: integer operators read
shifted operands, and the optimizer that makes more of them keeps to session.x64quantprecision."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import onnx
from qverify.errors import BadFileError
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.exact_products import inexact_kernels, with_exact_products
from qverify.onnx_model.light_model import light_model
from qverify.sides import reference


def _exact(model: bytes, level: str = "disable_all", **settings: Any) -> Engine:
    if level == "all":
        source = with_exact_products(light_model(onnx.ModelProto.FromString(model)))
        model, settings["lent"] = source.model.SerializeToString(), {**settings.get("lent", {}), **source.constants}
        with contextlib.suppress(BadFileError):  # it refuses models that have int8 activations, too
            return Engine(model, level, precision=True, **settings)
    return Engine(model, level, **settings)


@contextlib.contextmanager
def exact_default() -> Iterator[None]:
    """Has reports compare with a default onnxruntime whose products are exact within the block, also where the processor's
    saturate."""
    with mock.patch.object(reference, "Engine", _exact) if inexact_kernels() else contextlib.nullcontext():
        yield
