"""Generates the JSON reference as Markdown from the schema that the program prints."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

from qverify.compare import metrics
from qverify.report import (
    channels,
    checks,
    difference,
    document,
    facts,
    outputs_document,
    schema,
    sequence,
    spread,
    triage_document,
)
from qverify.report.matrix import document as matrix_document

from scripts.documents.escaped import escaped

DOCUMENTS = {
    "report": "ReportDocument",
    "triage": "TriageDocument",
    "diff": "ReportDifference",
    "matrix": "MatrixDocument",
    "outputs": "OutputsDocument",
}
MODULES = (
    document,
    triage_document,
    spread,
    difference,
    channels,
    checks,
    facts,
    sequence,
    matrix_document,
    outputs_document,
)


def page(kind: Literal["report", "triage", "diff", "matrix", "outputs"]) -> str:
    """Returns a table of fields for the document and for each object in it."""
    schema_of_document = schema.SCHEMAS[kind]()
    name = str(schema_of_document["title"])
    lines = _table(name, DOCUMENTS[kind], schema_of_document, kind)
    for part, body in schema_of_document["$defs"].items():
        lines += _table(part, part, body, kind)
    return "\n".join(lines)


def _table(name: str, dataclass: str, body: dict[str, Any], kind: str) -> list[str]:
    """Returns the section of an object: its meaning and a table of its fields. dataclass: the class it is made from."""
    lines = [f"### {name} {{ #{anchor(kind, name)} }}", ""]
    general, meanings = split_docstring(_docstring(dataclass), list(body.get("properties", {})))
    meanings = (_metrics() if dataclass == "TensorRow" else {}) | _comments(dataclass) | meanings
    lines += [escaped(general), ""] if general else []
    lines += ["| field | type | meaning |", "|---|---|---|"]
    required = set(body.get("required", []))
    for field, value in body.get("properties", {}).items():
        optional = "" if field in required else " (not always there)"
        lines.append(f"| `{field}` | {type_text(value, kind)}{optional} | {escaped(meanings.get(field, ''))} |")
    return [*lines, ""]


def split_docstring(text: str, fields: list[str]) -> tuple[str, dict[str, str]]:
    """Splits a docstring of the form `What it is. field: its meaning. other, third: theirs.` into summary and
    fields."""
    names = "|".join(fields)
    parts = re.split(rf"(?:^|(?<=[.;] ))((?:{names})(?:, (?:{names}))*): ", text)
    meanings = {}
    for group, meaning in zip(parts[1::2], parts[2::2], strict=True):
        sentence = meaning.strip().rstrip(";")
        meanings |= {name: sentence[0].upper() + sentence[1:] for name in group.split(", ") if sentence}
    return parts[0].strip(), meanings


def type_text(value: dict[str, Any], kind: str) -> str:
    """Returns the type that a schema allows as text, such as `list of Pair` or `text or null`."""
    if not value:
        return "anything"
    if value == schema.NUMBER:  # the page explains how values that are not finite are written
        return "number"
    if value == schema._REAL:
        return "number or null"
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{anchor(kind, name)})"
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join("null" if v is None else f"`{v}`" for v in value["enum"])
    if "anyOf" in value:
        return " or ".join(type_text(v, kind) for v in value["anyOf"])
    return _plain_type_text(value, kind)


def _plain_type_text(value: dict[str, Any], kind: str) -> str:
    """Returns the text of a schema with a `type`."""
    plain = value["type"]
    if isinstance(plain, list):
        return " or ".join(_plain_type_text({**value, "type": t}, kind) for t in plain)
    if plain == "array":
        return f"list of {type_text(value.get('items', {}), kind)}"
    if plain == "object":
        if inner := value.get("properties"):
            return "object: " + ", ".join(f"`{n}` ({type_text(v, kind)})" for n, v in inner.items())
        more = value.get("additionalProperties")
        return f"object of {type_text(more, kind)}" if isinstance(more, dict) and more else "object"
    return {"string": "text", "null": "null"}.get(plain, str(plain))


def anchor(kind: str, name: str) -> str:
    """Returns the anchor of an object's section."""
    return f"{kind}-{name}".lower().replace("/", "-").replace(".", "-")


def _docstring(name: str) -> str:
    """Returns the docstring of the dataclass with that name on one line, "" if it has none."""
    kind = _dataclass(name)
    if kind is None or not kind.__doc__ or kind.__doc__.startswith(f"{name}("):
        return ""
    return " ".join(kind.__doc__.split())


def _comments(name: str) -> dict[str, str]:
    """Returns the comment that follows each field in the source, by field."""
    kind = _dataclass(name)
    lines = inspect.getsource(kind).splitlines() if kind is not None else []
    matches = [re.match(r"    (\w+): .*?  # (.+)$", line) for line in lines]
    return {m[1]: m[2][0].upper() + m[2][1:] for m in matches if m is not None}


def _metrics() -> dict[str, str]:
    """Returns the first line of each metric's docstring, by field."""
    pages = [import_module(f"{metrics.__name__}.{page.name}") for page in iter_modules(metrics.__path__)]
    return {page.NAME: str(page.__doc__).splitlines()[0] for page in pages if hasattr(page, "NAME")}


def _dataclass(name: str) -> type | None:
    """Returns the class of the report with that name, or None."""
    for module in MODULES:
        member = vars(module).get(name)
        if inspect.isclass(member):
            return member
    return None
