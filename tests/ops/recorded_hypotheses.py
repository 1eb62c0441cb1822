"""Computes checksums of what every page of verifier/qverify/triage/hypotheses computes at the units of tests/ops/cases.

`python -m tests.ops.recorded_hypotheses` records them in hypotheses_of_ops.txt (3 minutes; with names of ops, only
these); run it after a wanted change of a page, and read which lines of the file it changed. A line is of one page at
one op: `--lines` with names of ops prints what it is made of (each unit, and way to spoil its output), to compare two
checkouts.

Most pages examine far more faults than they yield. So the recorded output is an array that notes what it is compared
with, and that either equals everything, so that a page yields all its faults, or only what it really equals."""

from __future__ import annotations

import sys
import warnings
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from qverify.arithmetic.workers import one_blas_thread
from qverify.model_bin.graph import Graph
from qverify.model_bin.units import Unit, units
from qverify.sides.simulator import Simulator
from qverify.triage.case import Case
from qverify.triage.fault import DOES_NOT_FIT
from qverify.triage.hypotheses import HypothesisPage, ops_of, pages_of

from tests.ops.case_files import CASES, FILES, RANDOM_NODES
from tests.ops.random_nodes import RandomNodes
from tests.ops.records import read_record, write_record
from tests.ops.test_forensics_of_ops import case, compiled, third, values

Array = Any
FILE = Path(__file__).parent / "hypotheses_of_ops.txt"
MAX_NOTED = 1 << 14  # elements of one comparison that count
ALL_MADE, MADE = 256, 4  # so many variants of a page are computed, then one in MADE of those that were compared before
MAX_ITEMS = 6000  # of a page at a case
INEXACT = {"log-softmax-steps", "float-functions"}  # pages that use numpy's exp, log ...
RANDOM = "random nodes"
WEIGHTS = np.random.Generator(np.random.PCG64(5)).uniform(0.5, 1.5, MAX_NOTED)


@dataclass(slots=True)
class Item:
    """One computed array. bits: of its elements. number: a weighted sum, which is nearly the same on other machines."""

    bits: int
    number: float


@dataclass
class Line:
    """The record of one page at one case. texts: checksum of the sentences, bits, shapes. items: the arrays it computed."""

    texts: int = 0
    items: list[Item] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Adds a text to the checksum of texts."""
        self.texts = zlib.crc32(text.encode(), self.texts)

    def add(self, values: Array) -> None:
        """Adds an array, of which at most MAX_NOTED elements count. All NaN count as the same number."""
        values = np.asarray(values)
        self.note(f"{values.dtype} {values.shape}")
        flat = values.reshape(-1)
        if flat.size > MAX_NOTED:
            flat = flat[:: -(-flat.size // MAX_NOTED)]
        if flat.dtype.kind == "f":
            flat = np.where(np.isnan(flat), flat.dtype.type(1234.5), flat)
            with np.errstate(all="ignore"):
                real = np.arcsinh(np.clip(flat.astype(np.float64), -1e30, 1e30))
        else:
            real = flat.astype(np.float64)
        self.items.append(Item(zlib.crc32(flat.tobytes()), float((real * WEIGHTS[: real.size]).sum())))


@dataclass
class Log:
    """Where a NotingArray notes. agrees: whether it then equals everything."""

    agrees: bool
    line: Line = field(default_factory=Line)


class NotingArray(np.ndarray[Any, Any]):
    """An array that notes in a log what it and its views are compared with. kind: its dtype before it was viewed."""

    log: Log | None
    kind: np.dtype[Any]

    def __array_finalize__(self, of: Any) -> None:
        self.log, self.kind = (of.log, of.kind) if isinstance(of, NotingArray) else (None, self.dtype)

    def __array_ufunc__(self, ufunc: Any, method: Any, *inputs: Any, **options: Any) -> Any:
        result = getattr(ufunc, method)(*(np.asarray(v) for v in inputs), **options)
        if ufunc is not np.equal or method != "__call__" or self.log is None:
            return result
        other = next((np.asarray(v) for v in inputs if not isinstance(v, NotingArray)), None)
        if other is not None and other.ndim and other.size:
            is_bits = self.kind.kind == "f" and other.dtype.kind == "u" and other.itemsize == self.kind.itemsize
            self.log.line.add(np.ascontiguousarray(other).view(self.kind) if is_bits else other)
            if self.log.agrees:
                return np.ones_like(result)
        return result

    def __array_function__(self, function: Any, _: Any, inputs: Any, options: Any) -> Any:
        return function(*_plain(inputs), **{name: _plain(v) for name, v in options.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_plain(v) for v in value)
    return np.asarray(value) if isinstance(value, NotingArray) else value


def _line_of(page: HypothesisPage, node: Case, log: Log) -> Line:
    """Runs a page and computes what it yields."""
    line = log.line = Line()
    tried = node.number_tried
    try:
        for number, variant in enumerate(page.variants(node)):
            if len(line.items) > MAX_ITEMS:
                break
            before = len(line.items)
            line.note(f"{variant.text} {variant.bits:.3f} {variant.part} {variant.part_bits:.3f} {variant.copied}")
            if variant.free is not None:
                line.add(variant.free)
            if variant.may_fit is not None:
                line.note(str(bool(variant.may_fit(node))))
            if number < ALL_MADE or number % MADE == 0 or before == len(line.items):
                try:
                    line.add(variant.make(node))
                except DOES_NOT_FIT as error:
                    line.note(type(error).__name__)
    except DOES_NOT_FIT as error:
        line.note(type(error).__name__)
    line.note(str(node.number_tried - tried))
    return line


def graphs_of(stem: str) -> Iterator[tuple[str, Graph, Mapping[str, Array]]]:
    """Yields the name, the graph and the tensors of the op's reference cases and of its random nodes."""
    for name in (name for name, (_, op, _) in CASES.items() if op == stem):
        graph = compiled(name)
        yield name, graph, values(graph)
    if stem in RANDOM_NODES:
        random = RandomNodes("ref-exact", zlib.crc32(stem.encode()))
        RANDOM_NODES[stem](random)
        given = SimpleNamespace(arrays=lambda: random.values, sha256="")
        graph = random.graph()
        yield RANDOM, graph, {**random.values, **Simulator(graph).run(given).tensors}  # type: ignore[arg-type]


def units_of(stem: str) -> Iterator[tuple[str, Graph, Unit, Mapping[str, Array]]]:
    """Yields the name, the graph, the unit and the tensors of one unit for each set of pages, dtype, and function; of
    random nodes for each set of inputs, too."""
    seen = set[object]()
    for name, graph, held in graphs_of(stem):
        for number, unit in enumerate(units(graph)):
            spec = graph.spec(unit.outputs[0])
            if not any(node.op == stem for node in unit.nodes) or spec.dtype == "bool":
                continue
            functions = [node.words[0] for node in unit.nodes if node.op in ("elementwise_float", "variadic_float")]
            spoiled = case(graph, unit, held, third(1))
            inputs = [graph.spec(n).dtype for n in unit.inputs] if name == RANDOM else []
            kind = (spec.dtype, *inputs, tuple(functions), tuple(page.NAME for page in pages_of(spoiled)))
            if kind not in seen and spoiled.differing.size:
                seen.add(kind)
                yield f"{name}.{number}", graph, unit, held


def lines_of(stem: str, pages: Collection[str] = ()) -> Iterator[tuple[str, Line]]:
    """Yields a line for each unit of the op, way to spoil its output, and page. Pages of certain ops are tried in the first
    way only, those of all ops once for each dtype."""
    seen = set[object]()
    with np.errstate(all="ignore"), warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        for name, graph, unit, held in units_of(stem):
            for way, (spoil, agrees, stems) in WAYS.items():
                if name.startswith(RANDOM) and way != FITS:
                    continue
                spoiled = case(graph, unit, held, spoil)
                log, recorded = Log(agrees), spoiled.recorded.view(NotingArray)
                recorded.log = log
                node = replace(spoiled, recorded=recorded, cache={}, states={})
                for page in pages_of(node) if spoiled.differing.size else ():
                    if pages and page.NAME not in pages:
                        continue
                    if ops_of(page) is None:
                        key = (page.NAME, way, node.spec.dtype, name.startswith(RANDOM))
                        if key in seen or not (stems is None or stem in stems):
                            continue
                        seen.add(key)
                    elif way != FITS:
                        continue
                    line = _line_of(page, node, log)
                    if line.items:
                        yield f"{name} {way} {page.NAME}", line


def _one_bit(y: Array) -> Array:
    y.reshape(-1).view(f"u{y.itemsize}")[y.size // 3] ^= 1 << (8 * y.itemsize - 3)
    return y


def _run(y: Array) -> Array:
    y.reshape(-1)[y.size // 3 : -(-2 * y.size // 3)] = y.reshape(-1)[0]
    return y


def _tail(y: Array) -> Array:
    flat = y.reshape(-1)
    flat[2 * len(flat) // 3 :] = flat[2 * len(flat) // 3 - 1 : -1].copy()
    return y


FITS = "all fit"
FEW = {"conv", "concat", "elementwise_float", "lookup", "matmul", "transpose"}
# name: what spoils the output, whether it equals everything it is compared with, the ops (None: all) at which it is tried
WAYS: dict[str, tuple[Callable[[Array], Array], bool, set[str] | None]] = {
    FITS: (third(1), True, None),
    "random": (third(1), False, None),
    "one bit": (_one_bit, False, FEW),
    "one run": (_run, False, FEW),
    "moved tail": (_tail, False, FEW),
}


def text_of(line: Line, page: str) -> str:
    """Returns the checksums of a line: number of arrays, what was noted of them, their elements. The last are sums of the
    elements, of 16 arrays each, if the page uses functions of numpy that are not the same on every machine."""
    if page not in INEXACT:
        bits = 0
        for item in line.items:
            bits = zlib.crc32(item.bits.to_bytes(4, "little"), bits)
        return f"{len(line.items)} {line.texts:08x} {bits:08x}"
    sums = [sum((1 + k % 7) * item.number for k, item in enumerate(part)) for part in _parts(line.items)]
    return f"{len(line.items)} {line.texts:08x} {' '.join(f'{v:.9g}' for v in sums)}"


def _parts(items: list[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), 16):
        yield items[start : start + 16]


def is_same(recorded: str, now: str) -> bool:
    if recorded == now:
        return True
    (*texts, sums), (*texts_now, sums_now) = recorded.split(" ", 2), now.split(" ", 2)
    if texts != texts_now or "." not in sums + sums_now:
        return False
    old, new = (np.array(v.split(" "), float) for v in (sums, sums_now))
    return old.shape == new.shape and bool(np.allclose(old, new, rtol=1e-7, atol=3e-5))


def lines_as_texts(stem: str) -> dict[str, str]:
    return {name: text_of(line, name.rpartition(" ")[2]) for name, line in lines_of(stem)}


def fold(texts: Mapping[str, str]) -> list[str]:
    """Returns a line for each page: of how many lines it is made, how many arrays these have, and their checksum; and,
    as they are, the lines of INEXACT pages, whose sums are compared one by one."""
    pages: dict[str, list[str]] = {}
    for name, text in texts.items():
        pages.setdefault(name.rpartition(" ")[2], []).append(f"{name}: {text}")
    folded = list[str]()
    for page, lines in sorted(pages.items()):
        if page in INEXACT:
            folded += lines
        else:
            arrays = sum(int(line.rpartition(": ")[2].split()[0]) for line in lines)
            folded.append(f"{page}: {len(lines)} {arrays} {zlib.crc32(chr(10).join(lines).encode()):08x}")
    return folded


def differing(old: Collection[str], now: Collection[str]) -> list[str]:
    """Returns the names of the folded lines that are not as recorded."""
    before, after = (dict(line.split(": ", 1) for line in lines) for lines in (old, now))
    return [
        name
        for name in {**before, **after}
        if name not in before or name not in after or not is_same(before[name], after[name])
    ]


def recorded() -> dict[str, list[str]]:
    """Returns the recorded lines of each op."""
    return read_record(FILE)


def changed(stem: str) -> list[str]:
    """Returns the names of the lines of an op that are not as recorded."""
    return differing(recorded().get(stem, ()), fold(lines_as_texts(stem)))


def record_or_print(
    words: Collection[str], file: Path, stems: Collection[str], texts_of: Callable[[str], Mapping[str, str]]
) -> None:
    """Writes the file: anew of the ops among the words, of all if there are none. --lines prints their lines instead."""
    named = [word for word in words if word != "--lines"] or [*stems]
    if "--lines" in words:
        print(*(f"{stem} {name}: {text}" for stem in named for name, text in texts_of(stem).items()), sep="\n")
        return
    old = read_record(file)
    write_record(file, {stem: fold(texts_of(stem)) if stem in named else old[stem] for stem in stems})


if __name__ == "__main__":
    record_or_print(sys.argv[1:], FILE, FILES, lines_as_texts)
