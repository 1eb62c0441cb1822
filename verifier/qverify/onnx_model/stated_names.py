"""The names that a toolkit gives to the tensors of the quantized ONNX that was written from its statements, in the
metadata of that ONNX."""

from __future__ import annotations

import json
from collections.abc import Mapping

from qverify.errors import BadFileError
from qverify.onnx_model.load import parse

NAMES = "qverify.names"
MAX_NAMES = 1 << 20


def with_names(data: bytes, names: Mapping[str, str]) -> bytes:
    """Returns the ONNX with the names of the toolkit's tensors, each with that of the tensor whose values it has; the same
    bytes without any."""
    if not names:
        return data
    model = parse(data, "")
    entry = model.metadata_props.add()
    entry.key, entry.value = NAMES, json.dumps(dict(names))
    return bytes(model.SerializeToString())


def names_in(data: object, where: str) -> dict[str, str]:
    """Returns these names; {} for an ONNX without them, and for a mapped one. Raises BadFileError if they cannot be read."""
    if not isinstance(data, bytes) or NAMES.encode() not in data:
        return {}
    text = next((p.value for p in parse(data, where).metadata_props if p.key == NAMES), "{}")
    try:
        names = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{where}: its metadata {NAMES}: {error}") from error
    if not isinstance(names, dict) or len(names) > MAX_NAMES or not all(isinstance(n, str) for n in names.values()):
        raise BadFileError(f"{where}: its metadata {NAMES}: wanted names of tensors, by those of the toolkit")
    return names
