"""The reference of the JSON documents as Markdown, made from the schema the program prints."""

from __future__ import annotations

import inspect
from typing import Any, Literal

from qverify.report import document, schema, spread, triage_document

from scripts.documents.escaped import escaped


def page(kind: Literal["report", "triage"]) -> str:
    """A table of fields for the document itself and for each object in it."""
    whole = schema.report_schema() if kind == "report" else schema.triage_schema()
    name = str(whole["title"])
    lines = [*_table(name, "The whole document.", whole, kind)]
    for part, body in whole["$defs"].items():
        lines += _table(part, _meaning(part), body, kind)
    return "\n".join(lines)


def _table(name: str, meaning: str, body: dict[str, Any], kind: str) -> list[str]:
    lines = [f"### {name} {{ #{anchor(kind, name)} }}", ""]
    lines += [escaped(meaning), ""] if meaning else []
    lines += ["| field | holds |", "|---|---|"]
    required = set(body.get("required", []))
    for field, value in body.get("properties", {}).items():
        optional = "" if field in required else " (not always there)"
        lines.append(f"| `{field}` | {type_text(value, kind)}{optional} |")
    return [*lines, ""]


def type_text(value: dict[str, Any], kind: str) -> str:
    """What a schema allows, in words: `list of Pair`, `text or null`."""
    if not value:
        return "anything"
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
        return f"object of {type_text(more, kind)}" if isinstance(more, dict) else "object"
    return {"string": "text", "null": "null"}.get(plain, str(plain))


def anchor(kind: str, name: str) -> str:
    return f"{kind}-{name}".lower().replace("/", "-").replace(".", "-")


def _meaning(name: str) -> str:
    """The docstring of the dataclass of that name, "" where it has none of its own."""
    for module in (document, triage_document, spread):
        found = vars(module).get(name)
        if inspect.isclass(found) and found.__doc__ and not found.__doc__.startswith(f"{name}("):
            return " ".join(found.__doc__.split())
    return ""
