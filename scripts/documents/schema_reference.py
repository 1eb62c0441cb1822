"""Generates the JSON reference as Markdown from the schema that the program prints."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

from qverify.compare import metrics
from qverify.report import difference, document, schema, spread, triage_document

from scripts.documents.escaped import escaped


def page(kind: Literal["report", "triage", "diff"]) -> str:
    """Returns a table of fields for the document and for each object in it."""
    whole = schema.SCHEMAS[kind]()
    name = str(whole["title"])
    lines = _table(name, {"report": "Report", "triage": "Triage", "diff": "Difference"}[kind], whole, kind)
    for part, body in whole["$defs"].items():
        lines += _table(part, part, body, kind)
    return "\n".join(lines)


def _table(name: str, of: str, body: dict[str, Any], kind: str) -> list[str]:
    """of: the dataclass that the object is made of."""
    lines = [f"### {name} {{ #{anchor(kind, name)} }}", ""]
    general, meanings = of_fields(_meaning(of), list(body.get("properties", {})))
    meanings = (_metrics() if of == "TensorRow" else {}) | _comments(of) | meanings
    lines += [escaped(general), ""] if general else []
    lines += ["| field | type | meaning |", "|---|---|---|"]
    required = set(body.get("required", []))
    for field, value in body.get("properties", {}).items():
        optional = "" if field in required else " (not always there)"
        lines.append(f"| `{field}` | {type_text(value, kind)}{optional} | {escaped(meanings.get(field, ''))} |")
    return [*lines, ""]


def of_fields(text: str, fields: list[str]) -> tuple[str, dict[str, str]]:
    """Splits a docstring of the form `What it is. field: its meaning. other, third: theirs.` into summary and fields."""
    names = "|".join(fields)
    parts = re.split(rf"(?:^|(?<=[.;] ))((?:{names})(?:, (?:{names}))*): ", text)
    meanings = {}
    for group, meaning in zip(parts[1::2], parts[2::2], strict=True):
        said = meaning.strip().rstrip(";")
        meanings |= {name: said[0].upper() + said[1:] for name in group.split(", ") if said}
    return parts[0].strip(), meanings


def type_text(value: dict[str, Any], kind: str) -> str:
    """Returns in words what a schema allows: `list of Pair`, `text or null`."""
    if not value:
        return "anything"
    if value == schema.NUMBER:  # the page says what stands for those that are not finite
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
    return _of_type(value, kind)


def _of_type(value: dict[str, Any], kind: str) -> str:
    plain = value["type"]
    if isinstance(plain, list):
        return " or ".join(_of_type({**value, "type": t}, kind) for t in plain)
    if plain == "array":
        return f"list of {type_text(value.get('items', {}), kind)}"
    if plain == "object":
        if inner := value.get("properties"):
            return "object: " + ", ".join(f"`{n}` ({type_text(v, kind)})" for n, v in inner.items())
        more = value.get("additionalProperties")
        return f"object of {type_text(more, kind)}" if isinstance(more, dict) and more else "object"
    return {"string": "text", "null": "null"}.get(plain, str(plain))


def anchor(kind: str, name: str) -> str:
    return f"{kind}-{name}".lower().replace("/", "-").replace(".", "-")


def _meaning(name: str) -> str:
    """Returns the docstring of the dataclass with that name, "" if it has none; for a row also those of the metrics."""
    kind = _dataclass(name)
    if kind is None or not kind.__doc__ or kind.__doc__.startswith(f"{name}("):
        return ""
    return " ".join(kind.__doc__.split())


def _comments(name: str) -> dict[str, str]:
    """Returns, by field, the comment that follows it in the source."""
    kind = _dataclass(name)
    lines = inspect.getsource(kind).splitlines() if kind is not None else []
    found = [re.match(r"    (\w+): .*?  # (.+)$", line) for line in lines]
    return {m[1]: m[2][0].upper() + m[2][1:] for m in found if m is not None}


def _metrics() -> dict[str, str]:
    """Returns, by field, the first line of each metric's docstring."""
    pages = [import_module(f"{metrics.__name__}.{page.name}") for page in iter_modules(metrics.__path__)]
    return {page.NAME: str(page.__doc__).splitlines()[0] for page in pages if hasattr(page, "NAME")}


def _dataclass(name: str) -> type | None:
    for module in (document, triage_document, spread, difference):
        found = vars(module).get(name)
        if inspect.isclass(found):
            return found
    return None
