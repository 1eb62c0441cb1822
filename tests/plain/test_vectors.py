"""The published vectors: current, small, and a checker that finds one wrong bit of a kernel in C."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.documents.blocks import ROOT
from scripts.vector_files.files import list_shipped, path_of, write_vectors

CHECK, EXAMPLE = ROOT / "vectors" / "check.py", ROOT / "vectors" / "example.c"
TFLM = ROOT / "vectors" / "tflm.json"
MOST_BYTES = 62_000  # about 60 KB
NAMES = [p.stem for p in list_shipped()]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def run(*words: object) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-I", str(CHECK), *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


def build(folder: Path, source: str, *flags: str) -> Path:
    (folder / "kernels.c").write_text(source)
    library = folder / "kernels.so"
    words = [
        "cc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        *flags,
        "-shared",
        "-fPIC",
        "-o",
        library,
        folder / "kernels.c",
    ]
    subprocess.run([*map(str, words), "-lm"], check=True, timeout=60)
    return library


@pytest.mark.parametrize("name", NAMES)
def test_the_vectors_are_what_the_simulator_computes(name: str) -> None:
    """scripts/vectors writes them anew."""
    arithmetic = next(p for p in list_shipped() if p.stem == name)
    text = path_of(arithmetic).read_text(encoding="utf-8")
    assert text == write_vectors(arithmetic)
    assert len(text) < MOST_BYTES


def test_every_file_of_vectors_has_a_shipped_arithmetic() -> None:
    assert sorted(p.stem for p in (ROOT / "vectors").glob("*.json")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_what_a_kernel_needs(name: str) -> None:
    status, listed, _ = run("--list", ROOT / "vectors" / f"{name}.json")
    vectors = json.loads((ROOT / "vectors" / f"{name}.json").read_text())
    assert status == 0
    assert all(f"{op['function']}: " in listed for op in vectors["ops"].values()) and vectors["ops"]
    for op in vectors["ops"].values():
        assert op["form"] not in op["alike"]
        for case in op["cases"]:
            low, high = case["limits"][:2]
            assert low <= min(case["result"]) and max(case["result"]) <= high
            assert len(case["zeros"]) == len(case["scales"]) == len(case["types"])
    sums = [c for c in vectors["ops"].get("conv", {"cases": []})["cases"] if c["count"] == 0]
    assert all(max(c["a"]) == 2**31 - 1 and min(c["a"]) == -(2**31) + 1 for c in sums)


@needs_compiler
def test_the_example_is_right_under_its_arithmetic(tmp_path: Path) -> None:
    """With the checks of undefined behaviour that a compiler has."""
    library = build(tmp_path, EXAMPLE.read_text(), "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
    status, out, err = run(TFLM, library, "conv", "fully_connected")
    assert (status, err) == (0, "") and "conv (gemmlowp): " in out
    assert all(line.split(": ")[1].split()[0] == line.split(" of ")[1].split()[0] for line in out.splitlines())


@needs_compiler
def test_one_bit_too_many_is_found_and_another_arithmetic_is_another(tmp_path: Path) -> None:
    wrong = EXAMPLE.read_text().replace("(-high + half) / unit", "(-high + half - 1) / unit")  # halves up
    assert wrong != EXAMPLE.read_text()
    status, out, _ = run(TFLM, build(tmp_path, wrong), "conv")
    assert status == 1 and "got " in out and "wanted " in out
    status, out, _ = run(ROOT / "vectors" / "litert.json", build(tmp_path, EXAMPLE.read_text()), "conv")
    assert status == 1 and "halves up at its second rounding" in out


@needs_compiler
def test_what_is_not_exported_or_not_computed_is_said(tmp_path: Path) -> None:
    library = build(tmp_path, EXAMPLE.read_text())
    status, out, _ = run(TFLM, library)
    assert status == 3 and "add: add is not exported by the library" in out
    refuses = EXAMPLE.read_text().replace("    double scale", "    if (count) return 1;\n    double scale")
    refuses = refuses.replace("    volatile double", "    if (count) return 1;\n    volatile double")
    status, out, _ = run(TFLM, build(tmp_path, refuses), "conv")
    assert status == 3 and "1 of 6 cases not computed" in out


@needs_compiler
def test_a_kernel_that_writes_nothing_or_too_much_is_wrong(tmp_path: Path) -> None:
    head = EXAMPLE.read_text().partition("static int linear")[0].partition("static int32_t clamp")[0]
    arguments = "int32_t n, const int32_t *a, const int32_t *b, const double *s, const int32_t *z, const int32_t *l, int32_t c, int32_t *r"
    unused = "(void)n, (void)a, (void)b, (void)s, (void)z, (void)l, (void)c, (void)r;"
    status, out, _ = run(TFLM, build(tmp_path, f"{head}int conv({arguments}) {{ {unused} return 0; }}"), "conv")
    assert status == 1 and "got nothing" in out
    status, _, err = run(
        TFLM, build(tmp_path, f"{head}int conv({arguments}) {{ {unused} r[n] = 3; return 0; }}"), "conv"
    )
    assert status == 2 and "beyond its" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[: len(text) // 2], "not vectors"),
        (lambda text: text.replace('"format": 1', '"format": 2'), "format 2, wanted 1"),
        (lambda text: text.replace('"result":[', '"result":["x",', 1), "a list of numbers is damaged"),
        (lambda text: text.replace('"result":[', '"result":[1,2,3,4,5,6,7,', 1), "lists of other lengths"),
        (lambda text: text.replace('"cases"', '"case"', 1), "not vectors"),
        (lambda text: "[]", "not vectors"),
        (lambda text: "[" * 100000, "not vectors"),
    ],
)
def test_damaged_vectors_are_refused_in_one_line(tmp_path: Path, change, said: str) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(change(TFLM.read_text()))
    status, out, err = run(path, "libc.so.6")
    assert (status, out) == (2, "") and said in err and err.count("\n") == 1


def test_usage(tmp_path: Path) -> None:
    assert run()[0] == 2 and run(TFLM)[0] == 2
    status, _, err = run(TFLM, tmp_path / "none.so")
    assert status == 2 and "none.so" in err and err.count("\n") == 1
    status, _, err = run(TFLM, tmp_path / "none.so", "relu")
    assert status == 2 and "no vectors of relu; it has conv" in err
    status, _, err = run(tmp_path / "none.json", "x.so")
    assert status == 2 and "none.json" in err and err.count("\n") == 1
