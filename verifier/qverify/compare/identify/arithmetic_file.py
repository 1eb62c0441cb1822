"""Writes and reads the file of an arithmetic (verifier/ARITHMETICS.md)."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from qverify.arithmetic.forms import Form, FormsOfOps
from qverify.closest_names import did_you_mean
from qverify.compare.identify.fit import FORMS
from qverify.errors import BadFileError
from qverify.files import read_regular
from qverify.model_bin.kinds_of_nodes import KINDS
from qverify.ops import stems
from qverify.report.learned import Arithmetic, Contradiction, LearnedOp

FORMAT = 1
MAX_BYTES = 1 << 20
_TOP = {"format", "name", "engine", "learned", "learned_on", "op"}
_OP = {
    "form",
    "nodes",
    "elements",
    "decided",
    "against",
    "alike",
    "ties",
    "nodes_apart",
    "nearest",
    "residual",
    "why",
    "held_out",
}


def to_text(arithmetic: Arithmetic) -> str:
    """Returns the text of the file."""
    lines = [f"format = {FORMAT}", f"name = {_quote(arithmetic.name)}"]
    lines += [f"engine = {_quote(arithmetic.engine)}"] if arithmetic.engine else []
    lines += [f"learned = {_quote(arithmetic.learned)}"] if arithmetic.learned else []
    if arithmetic.learned_on:
        lines += ["", "[learned_on]", *(f"{_bare(k)} = {_quote(v)}" for k, v in arithmetic.learned_on.items())]
    for op, learned in arithmetic.ops.items():
        lines += ["", f"[op.{_key(op)}]", *_op_lines(learned)]
    return "\n".join([*lines, ""])


def _op_lines(op: LearnedOp) -> list[str]:
    lines = [f"form = {_quote(op.form)}"] if op.form else []
    lines += [f"nodes = {op.nodes}", f"elements = {op.elements}"]
    if op.decided is not None:
        lines += [f"decided = {op.decided}", f"against = {_quote(op.against)}"]
    lines += [f"held_out = {op.held_out}"] if op.held_out is not None else []
    lines += [f"alike = {_list(op.alike)}"] if op.alike else []
    lines += [f"ties = {[*op.ties]}"] if op.ties is not None else []
    if op.nearest is not None:
        lines += [f"nearest = {_quote(op.nearest.form)}", f"residual = {[op.nearest.elements, op.nearest.of]}"]
    lines += [f"why = {_quote(op.why)}"] if op.why else []
    if op.parts:
        lines += [
            f"[op.{_key(op.op)}.nodes_apart]",
            *(f"{_quote(n)} = {_list(forms)}" for n, forms in op.parts.items()),
        ]
    return lines


def _key(op: str) -> str:
    return op if op in stems() else _quote(op)


def _bare(key: str) -> str:
    """Returns a key as TOML writes it: without quotes where it needs none."""
    return key if key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key) else _quote(key)


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _list(texts: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quote, texts))}]"


def read_arithmetic(path: str) -> Arithmetic:
    """Returns the arithmetic of a file. Raises BadFileError, in one line, for a file that is not one, is of another
    format, or has an op, a form or a number that this qverify does not know."""
    data = read_regular(path, MAX_BYTES + 1, follow=True)
    if len(data) > MAX_BYTES:
        raise BadFileError(f"{path}: more than {MAX_BYTES} bytes; wanted the file of an arithmetic")
    try:
        content = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadFileError(f"{path}: not TOML: {' '.join(str(error).split())[:120]}") from error
    return _Reader(path).read(content)


def forms_of_ops(arithmetic: Arithmetic) -> FormsOfOps:
    """Returns the forms of an arithmetic's ops, for the compiler; None for those that are not known."""
    forms = {op: Form.parse(learned.form) if learned.form else None for op, learned in arithmetic.ops.items()}
    return FormsOfOps(arithmetic.name, forms)


class _Reader:
    """Checks what a file says."""

    def __init__(self, path: str):
        self._path = path

    def read(self, content: dict[str, Any]) -> Arithmetic:
        version = content.get("format")
        if version != FORMAT or isinstance(version, bool):
            raise self._refuse("format", f"got {version!r}, wanted {FORMAT}; learn it again with this qverify")
        self._check_keys(content, _TOP, "")
        ops = content.get("op")
        if not isinstance(ops, dict) or not ops:
            raise self._refuse("op", "wanted a table [op.NAME] for each op")
        made = {op: self._read_op(op, table) for op, table in ops.items()}
        texts = {key: self._text(content, key, "") for key in ("name", "engine", "learned")}
        versions = content.get("learned_on", {})
        if not isinstance(versions, dict):
            raise self._refuse("learned_on", 'wanted a table of versions, such as firmware = "2.1"')
        learned_on = {key: self._text(versions, key, "learned_on.") for key in versions}
        return Arithmetic(texts["name"], texts["engine"], texts["learned"], made, learned_on)

    def _read_op(self, op: str, table: Any) -> LearnedOp:
        stem, _, kind = op.partition(", ")
        if stem not in stems():
            raise self._refuse(f"op.{op}", f"no op of NUMERICS.md{self._meant(stem, stems())}")
        if op != stem and kind not in KINDS:
            raise self._refuse(f"op.{op}", f"no kind of nodes{self._meant(kind, KINDS)}")
        if not isinstance(table, dict):
            raise self._refuse(f"op.{op}", "wanted a table")
        where = f"op.{op}."
        self._check_keys(table, _OP, where)
        form, alike = self._form(table, "form", where), self._forms(table.get("alike", []), f"{where}alike")
        nodes, elements = (self._number(table, key, where) for key in ("nodes", "elements"))
        decided = self._number(table, "decided", where) if "decided" in table else None
        against, nearest = self._form(table, "against", where), self._form(table, "nearest", where)
        residual, ties = self._pair(table, "residual", where) or (0, 0), self._pair(table, "ties", where)
        parts = table.get("nodes_apart", {})
        if not isinstance(parts, dict):
            raise self._refuse(f"{where}nodes_apart", "wanted a table of the forms of each node")
        apart = {str(n): self._forms(forms, f"{where}nodes_apart") for n, forms in parts.items()}
        found = Contradiction(nearest, residual[0], residual[1], "") if nearest else None
        why = self._text(table, "why", where)
        held = self._number(table, "held_out", where) if "held_out" in table else None
        return LearnedOp(op, form, nodes, elements, decided, against, alike, ties, apart, found, why, held)

    def _check_keys(self, table: dict[str, Any], known: set[str], where: str) -> None:
        for key in table:
            if key not in known:
                raise self._refuse(f"{where}{key}", f"not known{self._meant(key, known)}")

    def _form(self, table: dict[str, Any], key: str, where: str) -> str:
        return self._forms([table[key]], f"{where}{key}")[0] if key in table else ""

    def _forms(self, names: Any, where: str) -> tuple[str, ...]:
        if not isinstance(names, list):
            raise self._refuse(where, "wanted a list of forms")
        for name in names:
            try:
                Form.parse(name if isinstance(name, str) else str(name))
            except ValueError as error:
                is_misspelled = isinstance(name, str) and "is not known there" in str(error)
                meant = self._meant(name, FORMS) if is_misspelled else ""
                why = f"{str(name)[:60]!r} is no form of the catalogue{meant}" if meant else str(error)
                raise self._refuse(where, why) from None
        return tuple(names)

    def _number(self, table: dict[str, Any], key: str, where: str) -> int:
        value = table.get(key)
        if isinstance(value, int) and _is_count(value):
            return value
        raise self._refuse(f"{where}{key}", f"got {str(value)[:40]}, wanted a whole number of 0 or more")

    def _pair(self, table: dict[str, Any], key: str, where: str) -> tuple[int, int] | None:
        value = table.get(key)
        if value is not None and not (isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))):
            raise self._refuse(f"{where}{key}", "wanted two numbers of elements")
        return None if value is None else (value[0], value[1])

    def _text(self, table: dict[str, Any], key: str, where: str) -> str:
        value = table.get(key, "")
        if not isinstance(value, str) or len(value) > 2000:
            raise self._refuse(f"{where}{key}", "wanted a text of at most 2000 characters")
        return value

    def _meant(self, name: str, known: Any) -> str:
        return did_you_mean(name, known)

    def _refuse(self, where: str, why: str) -> BadFileError:
        return BadFileError(f"{self._path}: {where}: {why}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
