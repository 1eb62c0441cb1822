"""Makes the JSON Schemas of the documents from their dataclasses."""

from __future__ import annotations

import json
import types
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from qverify.report import difference, outputs_document, triage_document
from qverify.report.difference import ReportDifference
from qverify.report.document import DRAWN, SCHEMA, ReportDocument, TensorRow
from qverify.report.matrix import document as matrix_document
from qverify.report.matrix.document import MatrixDocument
from qverify.report.outputs_document import OutputsDocument
from qverify.report.triage_document import TriageDocument

NUMBER = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
_COUNT = {"type": ["integer", "null"]}
_REAL = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan", None]}]}
METRICS: dict[str, Any] = {  # the metrics of compare/metrics/; a test checks that the two agree
    "max_abs": _REAL,
    "max_lsb": _COUNT,
    "mismatched": _COUNT,
    "matching_digits": _COUNT,
    "cosine": _REAL,
    "norm_ratio": _REAL,
    "rmse": _REAL,
    "sqnr_db": _REAL,
    "centred_sqnr_db": _REAL,
    "euclidean_similarity": _REAL,
    "kl_divergence": _REAL,
    "max_ulp": _COUNT,
    "lsb_histogram": {"type": ["object", "null"], "additionalProperties": {"type": "integer"}},
}


def _describe_rows(optional: dict[str, dict[str, Any]] | None = None, /, **columns: dict[str, Any]) -> dict[str, Any]:
    properties = columns | (optional or {})
    return {"type": "array", "items": {"type": "object", "properties": properties, "required": [*columns]}}


_TEXT = {"type": "string"}
ROWS: dict[str, Any] = {
    "decimals": {
        "type": "object",
        "properties": {"digits": {"type": "integer"}, "rule": _TEXT},
        "required": ["digits", "rule"],
    },
    "inputs": _describe_rows(name=_TEXT, source=_TEXT, sha256=_TEXT),
    "models": _describe_rows(path=_TEXT, sha256=_TEXT, kind=_TEXT),
    "sides": _describe_rows(
        {
            "node_seconds": {"type": "object", "additionalProperties": NUMBER},
            "placement": _describe_rows(
                node=_TEXT, op=_TEXT, on=_TEXT, kernel=_TEXT, fallback={"type": "boolean"}, nodes={"type": "integer"}
            ),
            "ledger": {"type": "object", "additionalProperties": _TEXT},
            "tags": {"type": "object", "additionalProperties": _TEXT},
            "inventory": _TEXT,
        },
        name=_TEXT,
        engine=_TEXT,
        version=_TEXT,
        settings={"type": "object"},
        seconds=NUMBER,
        host=_TEXT,
        state={"enum": ["complete", "partial", "did not run", "not read"]},
        why=_TEXT,
    ),
    "frames": _describe_rows(
        frame={"type": "integer"},
        source=_TEXT,
        verdict=_TEXT,
        why=_TEXT,
        failing=_COUNT,
        max_abs=_REAL,
        board={"type": ["string", "null"]},
        board_lost={"type": "boolean"},
    ),
    "no_integer_reference": _describe_rows(node=_TEXT, op=_TEXT, why=_TEXT),
    "on_host": _describe_rows(node=_TEXT, op=_TEXT, why=_TEXT),
    "plain_onnxruntime": {
        "type": "object",
        "properties": {
            "outputs": _describe_rows(
                {"differing": _COUNT, "elements": _COUNT, "changed_by": _TEXT},
                name=_TEXT,
                equal={"type": "boolean"},
                max_abs=_REAL,
                why=_TEXT,
            ),
        },
    },
}
_CAUSE: dict[str, Any] = {
    "type": "object",
    "properties": {"family": _TEXT, "said": _TEXT, "bits": NUMBER, "taken": {"type": "integer"}},
    "required": ["family", "said", "bits", "taken"],
}
_EXPERIMENTS = _describe_rows(
    place={"enum": ["node", "network", "probe"]},
    kind=_TEXT,
    seed={"type": "integer"},
    inputs={"type": "object", "additionalProperties": _TEXT},
    board=_TEXT,
    simulator=_TEXT,
    elements={"type": "integer"},
    changed={"type": "integer"},
    stood={"type": "integer"},
    fell={"type": "integer"},
    shape=_TEXT,
    output=_TEXT,
)
_GROUPS = {"type": "array", "items": {"type": "array", "minItems": 1, "items": _CAUSE}}
_EXPLANATION_FIELDS: dict[str, Any] = {
    "description": {"type": "object"},
    "exact": _GROUPS,
    "confirmed": {"type": "boolean"},
    "unconfirmed": _TEXT,
    "general": _GROUPS,
    "experiments": _EXPERIMENTS,
    "fallen": _describe_rows(cause=_CAUSE, experiment={"type": "integer"}),
    "partial": _describe_rows(cause=_CAUSE, of_differing=NUMBER, of_all=NUMBER),
    "families": {"type": "object", "additionalProperties": NUMBER},
    "unexplained": {"type": "boolean"},
    "tried": {"type": "integer"},
    "not_tried": {"type": "array", "items": _TEXT},
    "scope": _TEXT,
    "evidence_bits": NUMBER,
}
_EXPLANATION: dict[str, Any] = {
    "type": "object",
    "properties": _EXPLANATION_FIELDS,
    "required": [*_EXPLANATION_FIELDS],
}
EXPLAINED = _describe_rows(
    node=_TEXT,
    op=_TEXT,
    tensor=_TEXT,
    frame={"type": "integer"},
    why=_TEXT,
    cost=_TEXT,
    explanation={"anyOf": [_EXPLANATION, {"type": "null"}]},
)
_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: NUMBER,
    type(None): {"type": "null"},
    Any: {},
}


def report_schema() -> dict[str, Any]:
    """Returns the JSON Schema (draft 2020-12) of `to_json(report)`."""
    return _make_document(ReportDocument, SCHEMA)


def triage_schema() -> dict[str, Any]:
    """Returns the JSON Schema of `TriageDocument.to_json()`."""
    return _make_document(TriageDocument, triage_document.SCHEMA)


def difference_schema() -> dict[str, Any]:
    """Returns the JSON Schema of `ReportDifference.to_json()`."""
    return _make_document(ReportDifference, difference.SCHEMA)


def matrix_schema() -> dict[str, Any]:
    """Returns the JSON Schema of `MatrixDocument.to_json()`."""
    return _make_document(MatrixDocument, matrix_document.SCHEMA)


def outputs_schema() -> dict[str, Any]:
    """Returns the JSON Schema of `qverify outputs diff`."""
    return _make_document(OutputsDocument, outputs_document.SCHEMA)


SCHEMAS = {
    "report": report_schema,
    "triage": triage_schema,
    "diff": difference_schema,
    "matrix": matrix_schema,
    "outputs": outputs_schema,
}  # by the name in `qverify report schema NAME`


def schema_text(name: str) -> str:
    """Returns the JSON Schema of one of SCHEMAS as text, which is the same in every run."""
    return json.dumps(SCHEMAS[name](), indent=2, sort_keys=True)


def _make_document(kind: type, name: str) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    body = _describe_object(kind, definitions)
    body["properties"] = {"schema": {"const": name}} | body["properties"]
    body["required"] = ["schema", *body["required"]]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name} | body | {"$defs": definitions}


def _describe_object(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    properties = {f.name: _describe(hints[f.name], definitions) for f in fields(kind) if f.name not in DRAWN}
    if kind is ReportDocument:
        properties |= ROWS
    if kind is TriageDocument:
        properties["explained"] = EXPLAINED
    if kind is TensorRow:  # a page of compare/metrics/ adds a property of its own
        del properties["metrics"]
        return {"type": "object", "properties": properties | METRICS, "required": [*properties]}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _describe(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a type, and adds dataclasses to the definitions. Raises TypeError for an unsupported
    type."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": [*arguments]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_describe(k, definitions) for k in arguments]}
    if origin is list:
        return {"type": "array", "items": _describe(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _describe(arguments[1], definitions)}
    if is_dataclass(kind) and isinstance(kind, type):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # a type may contain itself
            definitions[kind.__name__] = _describe_object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    raise TypeError(f"no schema for {kind}")
