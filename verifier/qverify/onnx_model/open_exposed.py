"""Opens onnxruntime sessions that also output inner tensors of a model."""

from __future__ import annotations

import onnx

from qverify.onnx_model.engine import Engine
from qverify.onnx_model.exact_products import with_exact_products
from qverify.onnx_model.expose_tensors import expose_tensors
from qverify.onnx_model.light_model import LightModel, light_model


def open_exposed(model: onnx.ModelProto | LightModel, names: list[str]) -> Engine:
    """Returns a session of the model with these tensors as additional outputs and with exact integer products. Large
    integer constants are not serialized but read in place. Raises BadFileError if onnxruntime refuses the model."""
    source = with_exact_products(model if isinstance(model, LightModel) else light_model(model))
    exposed = expose_tensors(source.model, names)
    return Engine(exposed.SerializeToString(), lent=source.constants)
