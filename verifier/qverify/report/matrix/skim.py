"""Reads what a matrix needs of a JSON report, many times faster than the whole of it.

A report as qverify writes it has a line for each value and element, so that the rows of tensors, nearly all of its bytes, can be cut out
by the indentation of their first and last line. SQLite checks that the whole text is JSON (a line end cannot lie within a text then);
everything but the rows goes through the reader of reports. Of the rows, the one that differs most is parsed. A report that is
written in another way is parsed as a whole."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qverify.errors import BadFileError
from qverify.files import parse_strict_json
from qverify.printable import printable
from qverify.report.document import ReportDocument
from qverify.report.read_report import report_of

AS_WRITTEN = '{\n "schema": "'
_ROWS = '\n   "tensors": [\n', "\n   ]"
_NOT_NEEDED = tuple((f'\n "{name}": [\n', "\n ]") for name in ("units", "no_integer_reference", "on_host", "findings"))
_NOT_NEEDED += (('\n    "not_offered": [\n', "\n    ]"),)
_FIRST, _LAST = "    {\n", "\n    }"  # of a list of rows
_BETWEEN_ROWS = "\n    },\n    {\n"
_SQNR = re.compile(r'\n     "sqnr_db": ([^\n,]*)')
_EQUAL, _FAILED, _INCONCLUSIVE = (
    '\n     "bit_equal": true',
    '\n     "verdict": "FAILED"',
    '\n     "verdict": "INCONCLUSIVE"',
)
Order = tuple[int, float]  # of rows: the one that differs most has the smallest
EQUAL: Order = (3, 0.0)


@dataclass(frozen=True, slots=True)
class PairRows:
    """The rows of a pair. rows: their number. differing: number of those whose bytes differ. worst: the row that differs most,
    None if none does. order: its place among the rows of several pairs."""

    rows: int = 0
    differing: int = 0
    worst: Mapping[str, Any] | None = None
    order: Order = EQUAL


@dataclass(slots=True)
class SkimmedRows:
    """The rows of a pair, which are read when they are asked for. lines: those of the list of tensors, "" without any. failed: whether
    a row FAILED."""

    lines: str = ""
    failed: bool = False
    read: PairRows | None = None

    def __call__(self) -> PairRows:
        if self.read is None:
            self.read = _find_worst(self.lines) if self.lines else PairRows()
        return self.read


@dataclass(slots=True)
class SkimmedReport:
    """A report without rows of tensors. pairs: the rows of each of its pairs, in their order."""

    report: ReportDocument
    pairs: list[SkimmedRows] = field(default_factory=list)


class Skimmer:
    """Reads reports, one after the other."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", check_same_thread=False)

    def __enter__(self) -> Skimmer:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def read(self, data: bytes, where: str) -> SkimmedReport:
        """Returns what is needed of a report. where: its name, for messages. Raises BadFileError as read_report does."""
        try:
            text = data.decode()
            skimmed = self._read_as_written(text, where)
            return skimmed if skimmed is not None else _read_whole(text, where)
        except (ValueError, RecursionError) as error:
            raise BadFileError(f"{where}: not JSON: {printable(str(error)[:120])}") from error

    def _read_as_written(self, text: str, where: str) -> SkimmedReport | None:
        """Returns what is needed of a report that qverify wrote and nobody reformatted; None for any other text."""
        if not text.startswith(AS_WRITTEN) or not self._is_json(text):
            return None
        pieces, bodies = _cut(text, *_ROWS)
        short = "".join(piece for at, one in enumerate(pieces) for piece in ([f"[{at - 1}]"] if at else []) + [one])
        for start, end in _NOT_NEEDED:
            short = "[]".join(_cut(short, start, end)[0])
        document = parse_strict_json(short)
        pairs = document.get("pairs") if isinstance(document, dict) else None
        places = [pair["tensors"] for pair in pairs if _has_rows(pair)] if isinstance(pairs, list) else []
        if places != [[at] for at in range(len(bodies))]:
            return None
        rows = [_skim(bodies[pair["tensors"][0]]) if _has_rows(pair) else SkimmedRows() for pair in pairs or ()]
        return _checked(document, rows, where)

    def _is_json(self, text: str) -> bool:
        """Returns whether SQLite takes the whole text for JSON; False if it cannot say."""
        if "\0" in text:
            return False
        try:
            return bool(self._database.execute("SELECT json_valid(?)", (text,)).fetchone()[0])
        except (sqlite3.Error, OverflowError):
            return False


def _cut(text: str, start: str, end: str) -> tuple[list[str], list[str]]:
    """Returns the text without its lists, as the pieces between them, and the lines of each list. start, end: the ends of a
    list: the bracket that ends `start`, and the first `end` after it."""
    pieces, bodies, at = list[str](), list[str](), 0
    while (begin := text.find(start, at)) >= 0 and (stop := text.find(end, begin + len(start))) >= 0:
        pieces.append(text[at : begin + len(start) - 2])
        bodies.append(text[begin + len(start) : stop])
        at = stop + len(end)
    return [*pieces, text[at:]], bodies


def _skim(body: str) -> SkimmedRows:
    return SkimmedRows(body, "FAILED" in body and _FAILED in body)


def _has_rows(pair: Any) -> bool:
    return isinstance(pair, dict) and bool(pair.get("tensors"))


def _read_whole(text: str, where: str) -> SkimmedReport:
    document = parse_strict_json(text)
    pairs = document.get("pairs") if isinstance(document, dict) else None
    rows = list[SkimmedRows]()
    for pair in pairs if isinstance(pairs, list) else ():
        tensors = pair.get("tensors") if isinstance(pair, dict) else None
        read = _of_rows([row for row in tensors if isinstance(row, dict)] if isinstance(tensors, list) else [])
        rows.append(SkimmedRows("", read.order[0] == 0, read))
    return _checked(document, rows, where)


def _checked(document: Any, rows: list[SkimmedRows], where: str) -> SkimmedReport:
    """Returns the skimmed report. Raises BadFileError if a pair PASSED although a row of it did not."""
    for pair in document.get("pairs") or () if isinstance(document, dict) else ():
        if isinstance(pair, dict) and isinstance(pair.get("tensors"), list):
            pair["tensors"] = []
    report = report_of(document, where)
    for pair, of_pair in zip(report.pairs, rows, strict=True):
        if pair.verdict == "PASSED" and of_pair.failed:
            raise BadFileError(
                f"{where}: pairs: {pair.a} ~ {pair.b}: got PASSED, but not all of it is; the file was changed"
            )
    return SkimmedReport(report, rows)


def _find_worst(body: str) -> PairRows:
    """Returns the rows of a pair, from the lines of its list of tensors."""
    texts = body[len(_FIRST) : -len(_LAST)].split(_BETWEEN_ROWS) if body.startswith(_FIRST) else [body]
    differing = [text for text in texts if _EQUAL not in text or _FAILED in text]
    if not differing:
        return PairRows(len(texts))
    order, worst = min(_ordered(differing), key=lambda pair: pair[0])
    return PairRows(len(texts), len(differing), json.loads("{" + worst + "}"), order)


def _ordered(texts: list[str]) -> Iterator[tuple[Order, str]]:
    for text in texts:
        found = _SQNR.search(text)
        rank = 0 if _FAILED in text else 1 if _INCONCLUSIVE in text else 2
        yield (rank, _decibels(found[1].strip('"') if found else None)), text


def _of_rows(rows: list[dict[str, Any]]) -> PairRows:
    """Returns the rows of a pair, from parsed ones."""
    differing = [row for row in rows if row.get("bit_equal") is not True or row.get("verdict") == "FAILED"]
    if not differing:
        return PairRows(len(rows))
    ranks = {"FAILED": 0, "INCONCLUSIVE": 1}
    ordered = [((ranks.get(str(row.get("verdict")), 2), _decibels(row.get("sqnr_db"))), row) for row in differing]
    order, worst = min(ordered, key=lambda pair: pair[0])
    return PairRows(len(rows), len(differing), worst, order)


def _decibels(value: Any) -> float:
    """Returns an SQNR as a number by which rows are ordered: NaN first, an unknown one last."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return float("inf")
    return float("-inf") if number != number else number
