"""Merges the descriptions of an input that options, a TOML file and a model.bin state."""

from __future__ import annotations

from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.inputs.described_inputs import complete_description, described_inputs, layout_of
from qverify.inputs.description import Description
from qverify.inputs.description_tables import parse_description, read_tables
from qverify.model_bin.container import MAGIC
from qverify.model_bin.records import decode
from qverify.onnx_model.load import read_file
from qverify.tensors.spec import TensorSpec


def merge_descriptions(
    options: dict[str, Any], toml: str | None, model: str | None, name: str | None
) -> tuple[Description | None, str]:
    """Returns the description of an input, and its name. Options override the TOML file, which overrides model.bin. The
    description is None if none of them states anything.

    options: keys and values of a description. toml, model: paths, None without one. name: of the input; it may be None
    if only one input is described. Raises UsageError if the input is ambiguous, unknown, or not a picture."""
    table: dict[str, Any] = {}
    if model is not None:
        name, table, spec = _read_model(model, name)
    if toml is not None:
        name, toml_table = _read_toml(toml, name)
        table |= toml_table
    table |= options
    if not table:
        return None, name or "input"
    where = model or toml or "options"
    description = parse_description(table, where) if model is None else complete_description(table, spec)
    if description is None:
        raise UsageError(f"{where}: input {name!r} is not a picture; its bytes are not described")
    return description, name or "input"


def _read_toml(path: str, name: str | None) -> tuple[str, dict[str, Any]]:
    """Returns an input's name and its table [inputs.NAME]; the only table if no name is given. Raises UsageError if
    there is no such table, or no name and several tables."""
    by_name = read_tables(path)
    chosen = next(iter(by_name)) if name is None and len(by_name) == 1 else name
    if chosen not in by_name:
        raise UsageError(f"{path}: {_missing_name(chosen)}; it describes {', '.join(by_name)}; give --name")
    return str(chosen), dict(by_name[chosen])


def _read_model(path: str, name: str | None) -> tuple[str, dict[str, Any], TensorSpec]:
    """Returns name, table and spec of an input of model.bin. If the file does not describe the input, the table
    contains only the tensor's layout."""
    data = read_file(path)
    if data[: len(MAGIC)] != MAGIC:
        raise UsageError(f"-m {path}: not a model.bin of qverify compile")
    try:
        graph = decode(data)
        described_by_input = described_inputs(graph)
    except BadFileError as error:
        raise BadFileError(f"{path}: {error}") from error
    rois = {f.roi for f in described_by_input.values()}
    names = {described_by_input[n].name if n in described_by_input else n: n for n in graph.inputs if n not in rois}
    chosen = next(iter(names)) if name is None and len(names) == 1 else name
    if chosen not in names:
        raise UsageError(f"{path}: {_missing_name(chosen)}; its inputs are {', '.join(names)}; give --name")
    spec = graph.spec(names[chosen])
    if names[chosen] in described_by_input:
        return str(chosen), dict(described_by_input[names[chosen]].table), spec
    layout = layout_of(spec)
    return str(chosen), {"layout": layout} if layout else {}, spec


def _missing_name(name: str | None) -> str:
    return "which input" if name is None else f"no input {name!r}"
