"""The JSON Schema of a suite's --json output, made from its dataclasses."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from qverify_farm.suites.suite_report import SCHEMA, SuiteReport

PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def suite_schema() -> dict[str, Any]:
    """Returns the schema."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "qverify suite",
        "$comment": SCHEMA,
    }
    schema = head | _schema_of_type(SuiteReport)
    schema["properties"]["schema"] = {"const": SCHEMA}
    return schema


def schema_text() -> str:
    """Returns the schema as text, as it is printed and published."""
    return json.dumps(suite_schema(), indent=2)


def _schema_of_type(kind: Any) -> dict[str, Any]:
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [entry.name for entry in fields(kind)]
        properties = {name: _schema_of_type(hints[name]) for name in names}
        text = " ".join((kind.__doc__ or "").split())
        return {"type": "object", "description": text, "properties": properties, "required": names}
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of_type(entry) for entry in args]}
    if origin is list:
        return {"type": "array", "items": _schema_of_type(args[0])}
    assert origin is dict, kind
    return {"type": "object", "additionalProperties": _schema_of_type(args[1])}
