"""Reads a JSON report into a Report. The file is untrusted: sizes, nesting, types and numbers are checked."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from qverify.errors import BadFileError
from qverify.files import parse_strict_json, read_regular
from qverify.printable import printable
from qverify.report.document import DRAWN, SCHEMA, ReportDocument, TensorRow
from qverify.report.weakenings import list_caveats

T = TypeVar("T")
MAX_BYTES = 1 << 28
MAX_WHOLE_NUMBER = 1 << 63
MAX_DEPTH = 40  # levels of lists and objects
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
PLAIN: dict[Any, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    type(None): (type(None),),
}


def read_report(path: str) -> ReportDocument:
    """Returns the report in a file. Raises BadFileError, which names the wrong field, for any other file."""
    data = read_regular(path, MAX_BYTES + 1, follow=True)
    if len(data) > MAX_BYTES:
        raise BadFileError(f"{path}: more than {MAX_BYTES >> 20} MiB; wanted the JSON report of a run (--json)")
    try:
        return report_of(parse_strict_json(data), path)
    except (ValueError, RecursionError) as error:
        raise BadFileError(f"{path}: not JSON: {printable(str(error)[:120])}") from error


def report_of(document: Any, where: str) -> ReportDocument:
    """Returns the report of a parsed document. where: name of the document, for messages. Raises BadFileError if it is
    not a report."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        found_schema = printable(repr(schema)[:60]) if schema is not None else "none"
        raise BadFileError(
            f"{where}: schema: got {found_schema}, wanted {SCHEMA} (a report of --json), or a capture's folder"
        )
    if _is_deeper(document, MAX_DEPTH):
        raise BadFileError(f"{where}: not a report of qverify: more than {MAX_DEPTH} levels of lists and objects")
    try:
        report: ReportDocument = _build(ReportDocument, document, "")
        report.caveats = _own_caveats(report)
    except ValueError as error:
        raise BadFileError(f"{where}: not a report of qverify: {error}") from error
    _check_rows(report, where)
    return report


def build_checked(kind: type[T], value: Any) -> T:
    """Returns a parsed JSON value as an instance of a dataclass. Raises ValueError, which names the field, if it has another
    form."""
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError(f"more than {MAX_DEPTH} levels of lists and objects")
    built: T = _build(kind, value, "")
    return built


def _own_caveats(report: ReportDocument) -> list[str]:
    """Returns the caveats of a document without those that follow from its pairs, inputs and absent sides."""
    written, report.caveats = report.caveats, []
    derived = list_caveats(report)
    return [text for text in written if text not in derived]


def _check_rows(report: ReportDocument, where: str) -> None:
    """Raises BadFileError for contents that would make a comparison overlook something, such as a verdict that
    contradicts its pairs."""
    for side in report.sides:
        seconds = side.get("node_seconds", {})
        if not isinstance(seconds, dict) or not all(_is_number(one) for one in seconds.values()):
            raise BadFileError(f"{where}: sides: node_seconds: wanted seconds by the nodes' names")
    for pair in report.pairs:
        if len({row.name for row in pair.tensors}) != len(pair.tensors):
            raise BadFileError(f"{where}: pairs: {pair.a} ~ {pair.b}: two tensors of one name")
        if any(row.elements < 0 for row in pair.tensors) or pair.coverage.elements < 0:
            raise BadFileError(f"{where}: pairs: {pair.a} ~ {pair.b}: a negative number of elements")
        contradiction = pair.cause or pair.coverage.missing or any(row.verdict == "FAILED" for row in pair.tensors)
        if pair.verdict == "PASSED" and contradiction:
            raise BadFileError(
                f"{where}: pairs: {pair.a} ~ {pair.b}: got PASSED, but not all of it is; the file was changed"
            )
    if report.verdict == "PASSED" and any(row.verdict != "PASSED" for task in report.tasks for row in task.gates):
        raise BadFileError(f"{where}: verdict: got PASSED, but a gate of the task is not; the file was changed")
    if report.verdict == "PASSED" and any(pair.verdict != "PASSED" for pair in report.pairs):
        raise BadFileError(f"{where}: verdict: got PASSED, but a pair is not; the file was changed")


def _is_deeper(value: Any, max_depth: int) -> bool:
    """Returns True if lists and objects are nested more than max_depth levels deep."""
    level = [value]
    for _ in range(max_depth + 1):
        containers = [value_of_level for value_of_level in level if isinstance(value_of_level, (list, dict))]
        if not containers:
            return False
        level = [
            inner
            for value_of_level in containers
            for inner in (value_of_level.values() if isinstance(value_of_level, dict) else value_of_level)
        ]
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(kind), get_args(kind)


@cache
def _read_fields(kind: type) -> dict[str, Field[Any]]:
    return {f.name: f for f in fields(kind) if f.name not in DRAWN}


def _build(kind: Any, value: Any, at: str) -> Any:
    """Returns the value as an instance of the type. Raises ValueError, which names the field, if it has another
    type."""
    if kind is Any:
        return value
    if kind in PLAIN:
        return _plain(kind, value, at)
    origin, arguments = _parts(kind)
    if origin is Literal:
        if not isinstance(value, str) or value not in arguments:
            raise _wrong(at, value, f"one of {', '.join(map(str, arguments))}")
        return value
    if origin in (Union, types.UnionType):
        return _build_any(arguments, value, at)
    if origin is list:
        if not isinstance(value, list):
            raise _wrong(at, value, "a list")
        return [_build(arguments[0], one, f"{at}[{number}]") for number, one in enumerate(value)]
    if not isinstance(value, dict):
        raise _wrong(at, value, "an object")
    if origin is dict:
        return {name: _build(arguments[1], one, f"{at}.{printable(name[:60])}") for name, one in value.items()}
    if is_dataclass(kind) and isinstance(kind, type):
        return _build_object(kind, value, at)
    raise TypeError(f"no reader for {kind}")


def _plain(kind: Any, value: Any, at: str) -> Any:
    if kind is float and isinstance(value, str) and value in NOT_FINITE:
        return NOT_FINITE[value]
    fits = isinstance(value, PLAIN[kind]) and (kind is bool or not isinstance(value, bool))
    if not fits or (isinstance(value, int) and abs(value) > MAX_WHOLE_NUMBER):
        raise _wrong(at, value, {str: "a text", float: "a number", int: "a whole number"}.get(kind, kind.__name__))
    return float(value) if kind is float else value


def _build_any(kinds: tuple[Any, ...], value: Any, at: str) -> Any:
    """Returns the value as an instance of the first type that it fits. Raises ValueError if it fits none."""
    if value is None and type(None) in kinds:
        return None
    wrong: ValueError | None = None
    for kind in kinds:
        try:
            return _build(kind, value, at)
        except ValueError as error:
            wrong = error if wrong is None or isinstance(value, dict) else wrong
    raise wrong or _wrong(at, value, "another type")


def _build_object(kind: type, value: dict[str, Any], at: str) -> Any:
    """Returns an instance of the dataclass. Unknown fields are ignored, except those of a TensorRow, which are
    metrics."""
    hints, known = _hints(kind), _read_fields(kind)
    built = dict[str, Any]()
    for name, declared in known.items():
        here = f"{at}.{name}" if at else name
        if kind is TensorRow and name == "metrics":
            others = {n: v for n, v in value.items() if n not in known and n != "metrics"}
            built[name] = _build(hints[name], others, at)
        elif name in value:
            built[name] = _build(hints[name], value[name], here)
        elif declared.default is MISSING and declared.default_factory is MISSING:
            raise ValueError(f"{here}: missing")
    return kind(**built)


def _wrong(at: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"{at or 'document'}: got {printable(repr(value)[:60])}, wanted {wanted}")
