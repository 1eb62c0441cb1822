"""A session of a model with tensors of its inside as outputs."""

from __future__ import annotations

import onnx

from qverify.onnx_model.engine import Engine
from qverify.onnx_model.exact_products import with_exact_products
from qverify.onnx_model.light_model import LightModel, light_model


def open_exposed(model: onnx.ModelProto | LightModel, names: list[str]) -> Engine:
    """Returns a session of the model with these tensors as outputs, too, and with exact products of integers. Its large
    constants of integers are not serialized but read where they are. Raises BadFileError."""
    source = with_exact_products(model if isinstance(model, LightModel) else light_model(model))
    exposed = onnx.ModelProto()
    exposed.CopyFrom(source.model)
    existing = {o.name for o in exposed.graph.output}
    exposed.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in existing)
    return Engine(exposed.SerializeToString(), lent=source.constants)
