"""scripts/replay: what the program makes of the corpus, beside what was recorded of it."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import qverify
from qverify.triage import fault_search

from replaying.corpus import CORPUS, FOLDER, make, pack, unpack

EXPECTED, DOCUMENTS = FOLDER / "expected.txt", FOLDER / "documents.tar.xz"
VOLATILE = {"date", "timings", "qverify", "command", "seconds", "environment"}  # keys whose values depend on the run
# Without AVX-512, with which they were recorded, onnxruntime adds their floats in another order, and what is stated of that differs.
SUMS_OF_FLOATS = {"24_quantize_blocks", "25_reduce_float"}
CPUINFO = Path("/proc/cpuinfo")
SHOWN = 5  # changed fields of a document
SEARCH = 3600.0  # seconds that triage may search at a node: never the limit, so that slow machines find the same


def without_volatile(value: Any) -> Any:
    """Returns a JSON value without the keys whose values depend on time, place and version."""
    if isinstance(value, dict):
        return {key: without_volatile(item) for key, item in value.items() if key not in VOLATILE}
    return [without_volatile(item) for item in value] if isinstance(value, list) else value


def document_of(path: Path) -> dict[str, Any]:
    """Returns what the program makes of a model (.onnx) or a capture (a folder), without what depends on the run."""
    if path.is_dir():
        with mock.patch.object(fault_search, "ENOUGH_S", SEARCH):
            judged, triaged = qverify.replay(path).to_json(), qverify.triage(replay=path, explain=SEARCH).to_json()
        return {"replay": without_volatile(judged), "triage": without_volatile(triaged)}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model.bin"
        qverify.compile(path, output=target)
        content = target.read_bytes()
    return {"model.bin": {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}}


def text_of(path: Path) -> str:
    """Returns document_of as JSON text; an error of the program as a document that states it."""
    try:
        document = document_of(path)
    except qverify.QVerifyError as error:
        document = {"error": f"{type(error).__name__}: {error}".replace(str(path), path.name)}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def changes(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yields a line for each value that differs, with its place."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from changes(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (a, b) in enumerate(zip(before, after, strict=True)):
            yield from changes(a, b, f"{path}[{number}]")
    elif before != after:
        yield f"{path.lstrip('.')}: {_short(before)} -> {_short(after)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def summary_line(name: str, text: str) -> str:
    """Returns the line of expected.txt: a checksum of the document, and what it says in a few words."""
    document = json.loads(text)
    judged = document.get("replay", {})
    words = [judged.get("verdict"), (judged.get("blame") or {}).get("node"), document.get("error")]
    said = " ".join(str(w) for w in words if w) or f"{document['model.bin']['bytes']} bytes"
    return f"{name} {hashlib.sha256(text.encode()).hexdigest()[:16]} {said}"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/replay", description=sys.modules["__main__"].__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--record", action="store_true", help="record what the program makes of the corpus")
    parser.add_argument("--make", action="store_true", help="make the corpus anew first")
    options = parser.parse_args(words)
    if options.names and (options.record or options.make):
        parser.error("--record and --make take the whole corpus, no names")
    with tempfile.TemporaryDirectory(prefix="qverify-replay-") as folder:
        return _run(Path(folder), options)


def _run(folder: Path, options: argparse.Namespace) -> int:
    if options.make:
        make(folder / "made")
        pack(folder / "made", CORPUS)
    unpack(CORPUS, folder / "corpus")
    paths = {p.stem: p for p in sorted((folder / "corpus").glob("*/*"))}
    unknown = sorted({*options.names} - {*paths})
    if unknown:
        print(f"scripts/replay: nothing in the corpus is called {unknown[0]}", file=sys.stderr)
        return 2
    wanted = {name: path for name, path in paths.items() if not options.names or name in options.names}
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:  # onnxruntime has threads
        texts = dict(zip(wanted, pool.map(text_of, wanted.values()), strict=True))
    if options.make or options.record:
        _record(folder / "documents", texts)
        return 0
    unpack(DOCUMENTS, folder / "expected")
    return _compare(texts, folder / "expected", complete=not options.names)


def _record(folder: Path, texts: dict[str, str]) -> None:
    """Writes expected.txt, and documents.tar.xz where a document has changed."""
    lines = "".join(f"{summary_line(name, text)}\n" for name, text in texts.items())
    if EXPECTED.exists() and DOCUMENTS.exists() and EXPECTED.read_text() == lines:
        print("scripts/replay: nothing has changed")
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.json").write_text(text)
    pack(folder, DOCUMENTS)
    EXPECTED.write_text(lines)


def _verdicts(document: dict[str, Any]) -> list[Any]:
    """Returns what a document says of each pair of sides: verdict, cause and blame."""
    judged = document.get("replay", {})
    pairs = [(p["a"], p["b"], p["verdict"], p["cause"]) for p in judged.get("pairs", [])]
    return [judged.get("verdict"), judged.get("blame"), pairs]


def is_of_other_processors(name: str, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Returns whether two documents differ in what sums of floats on other processors explain: never in a verdict, and
    never on a processor like that of the record."""
    if name not in SUMS_OF_FLOATS or (CPUINFO.exists() and "avx512f" in CPUINFO.read_text()):
        return False
    return _verdicts(before) == _verdicts(after)


def _compare(texts: dict[str, str], expected: Path, complete: bool) -> int:
    """Prints the documents that differ from those recorded, and how. Returns the exit status."""
    different = other = 0
    for name, text in texts.items():
        path = expected / f"{name}.json"
        before = json.loads(path.read_text()) if path.exists() else None
        found = list(changes(before, json.loads(text)))
        if found:
            is_other = before is not None and is_of_other_processors(name, before, json.loads(text))
            other, different = other + is_other, different + (not is_other)
            why = ", as on other processors: its verdicts are as recorded" if is_other else ""
            print(f"{name}: {len(found)} changed{why}", *found[:SHOWN], sep="\n  ")
    missing = {p.stem for p in expected.glob("*.json")} - {*texts} if complete else set()
    for name in sorted(missing):
        print(f"{name}: recorded, but not in the corpus")
    same = len(texts) - different - other
    print(
        f"scripts/replay: {same} of {len(texts)} as recorded" + (f", {other} as on other processors" if other else "")
    )
    return 1 if different or missing or not texts else 0
