"""Faults planted in a LiteRT delegate (a C library of the tests' own): found and located by dumps of every node, and by
final outputs alone."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import Counter
from pathlib import Path

from tests.litert_delegate import Spoilable, board, built_delegate, reduce, spoilable, verify

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models"
NAMES = ("resnet8_cifar10", "kws_mlperf_int8")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench delegate", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="faults for each of the two ways")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", nargs="+", default=list(NAMES))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(words)
    files = [next((MODELS / name).glob("*.tflite")) for name in asked.models]
    operators = {file: spoilable(file) for file in files}
    drawn, found, missed = random.Random(asked.seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="qverify-delegate-") as name:
        work = Path(name)
        library = built_delegate(work)
        for number in range(asked.count):
            file = files[number % len(files)]
            one, seed = drawn.choice(operators[file]), drawn.randrange(1 << 16)
            said = by_dumps(file, library, one, seed, work)
            found[f"dumps: {said}"] += 1
            missed += [f"{file.name} {one} seed {seed}: {said}"] if said != "located" else []
        while sum(n for k, n in found.items() if k.startswith("finals") and "changed" not in k) < asked.count:
            file = files[sum(found.values()) % len(files)]
            one, seed = drawn.choice(operators[file]), drawn.randrange(1 << 16)
            said = by_finals(file, library, one, seed, work)
            found[f"finals: {said}"] += 1
            missed += [f"{file.name} {one} seed {seed}: finals {said}"] if said not in ("located", UNCHANGED) else []
    for text in missed:
        print(text)
    for key, times in sorted(found.items()):
        print(f"{key}: {times}")
    if asked.json:
        asked.json.write_text(json.dumps(dict(found), indent=1))
    return 1 if missed else 0


UNCHANGED = "no output changed"


def by_dumps(file: Path, library: Path, one: Spoilable, seed: int, work: Path) -> str:
    """Returns "located" if the board is blamed at this operator, else a description of the outcome."""
    status, report = verify(file, board(library, one, seed, finals=False), work, "--seed", str(seed))
    blame = report["blame"]
    if status != 1 or blame is None:
        return f"not found (status {status}, {report['verdict']})"
    return "located" if blame["side"] == "board" and blame["node"] in one.names else f"blamed {blame['node']}"


def by_finals(file: Path, library: Path, one: Spoilable, seed: int, work: Path) -> str:
    """Returns "located" if the reduction ends at this operator, else a description of the outcome."""
    uri = board(library, one, seed, finals=True)
    status, report = reduce(file, uri, work, "--seed", str(seed))
    if status == 0:
        return UNCHANGED if outputs(file, library, one, seed) == outputs(file, library, None, seed) else "not found"
    reduced = report["reduced"] or {}
    return "located" if reduced.get("node") in one.names else f"reduced to {reduced.get('node') or reduced.get('why')}"


def outputs(file: Path, library: Path, one: Spoilable | None, seed: int) -> list[bytes]:
    """Returns the final outputs that LiteRT itself computes with the delegate."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType, load_delegate
    from qverify.inputs.sources import InputRequest, prepared_inputs
    from qverify.session.models import open_models
    from qverify.tflite_model.layout import as_in_file

    models = open_models([str(file)])
    assert models.alone is not None
    options = {"seed": str(seed), **(dict([one.option.split("=")]) if one is not None else {})}
    opened = Interpreter(
        str(file),
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
        experimental_delegates=[load_delegate(str(library), options)],
    )
    opened.allocate_tensors()
    for name, value in prepared_inputs(models.graph, InputRequest(seed=seed)).arrays().items():
        entry = models.alone.converted.tensors[name]
        opened.set_tensor(int(entry["tfl"]), as_in_file(entry, value))
    opened.invoke()
    return [opened.get_tensor(d["index"]).tobytes() for d in opened.get_output_details()]
