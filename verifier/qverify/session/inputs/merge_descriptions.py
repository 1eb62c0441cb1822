"""What options, a TOML file and a model.bin say of one input, together."""

from __future__ import annotations

from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.inputs.described_inputs import complete_description, described_inputs, layout_of
from qverify.inputs.description import Description
from qverify.inputs.description_tables import described, tables
from qverify.model_bin.container import MAGIC
from qverify.model_bin.records import decode
from qverify.onnx_model.load import read_file
from qverify.tensors.spec import TensorSpec


def description(
    given: dict[str, Any], toml: str | None, model: str | None, name: str | None
) -> tuple[Description | None, str]:
    """What a table, a TOML file and a model.bin say, in this order, and the input's name. None where none says anything."""
    table: dict[str, Any] = {}
    if model is not None:
        name, table, spec = _of_model(model, name)
    if toml is not None:
        name, more = _of_toml(toml, name)
        table |= more
    table |= given
    if not table:
        return None, name or "input"
    where = model or toml or "options"
    wanted = described(table, where) if model is None else complete_description(table, spec)
    if wanted is None:
        raise UsageError(f"{where}: input {name!r} is no picture; nothing describes its bytes")
    return wanted, name or "input"


def _of_toml(path: str, name: str | None) -> tuple[str, dict[str, Any]]:
    """The table [inputs.NAME]; the only one when no name is given."""
    found = tables(path)
    chosen = next(iter(found)) if name is None and len(found) == 1 else name
    if chosen not in found:
        raise UsageError(f"{path}: {_no(chosen)}; it describes {', '.join(found)}; give --name")
    return str(chosen), dict(found[chosen])


def _of_model(path: str, name: str | None) -> tuple[str, dict[str, Any], TensorSpec]:
    """What a model.bin says of one of its inputs; the tensor's own layout and size where it says nothing."""
    data = read_file(path)
    if data[: len(MAGIC)] != MAGIC:
        raise UsageError(f"-m {path}: not a model.bin of qverify compile")
    try:
        graph = decode(data)
        held = described_inputs(graph)
    except BadFileError as error:
        raise BadFileError(f"{path}: {error}") from error
    rois = {f.roi for f in held.values()}
    names = {held[n].name if n in held else n: n for n in graph.inputs if n not in rois}
    chosen = next(iter(names)) if name is None and len(names) == 1 else name
    if chosen not in names:
        raise UsageError(f"{path}: {_no(chosen)}; its inputs are {', '.join(names)}; give --name")
    spec = graph.spec(names[chosen])
    if names[chosen] in held:
        return str(chosen), dict(held[names[chosen]].table), spec
    layout = layout_of(spec)
    return str(chosen), {"layout": layout} if layout else {}, spec


def _no(name: str | None) -> str:
    return "which input" if name is None else f"no input {name!r}"
