"""The wheels for ARM give the bits of this processor: qverify runs in a Python for ARM under QEMU's user mode, on a processor
without and one with instructions for products of bytes."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
from qverify_agents import this_user
from qverify_agents.emulation import python_root
from qverify_agents.errors import LinkError

from tests.conftest import ROOT, need_qemu
from tests.emulated.results_of_floats import KINDS
from tests.ops.recorded_explanations import recorded
from tests.processors import note_exercised

pytestmark = need_qemu("aarch64")
PROCESSORS = ("cortex-a53", "neoverse-n1")
NEEDED = (  # of qverify and of its tests; onnxruntime is in the folder of the Python
    *("numpy", "onnx", "ml_dtypes", "protobuf", "typing_extensions", "click", "threadpoolctl", "xxhash", "zstandard"),
    *("google-crc32c", "lz4", "pytest", "pluggy", "iniconfig", "packaging", "pygments"),
)
PAGES = (  # of hypotheses about floats, of which one planted fault is explained
    *(
        "applied-twice",
        "float-comparison",
        "float-elements",
        "float-means",
        "float-product-sums",
        "layer-norm-variance",
    ),
    *("softmax-axis", "softmax-lanes", "softmax-sums"),
)
OTHER_SCALES = re.compile(
    "(softmax_of_products|(simplified_)?layer_norm)[.]"
)  # onnxruntime's float results choose them, see Qdq
STEMS = ("softmax_float", "reduce_float")
EXPLAINED = {p.page: p for p in reversed(recorded()) if p.page in PAGES and not OTHER_SCALES.match(p.unit)}
RECORDS = [*(f"explanation {p}" for p in EXPLAINED.values()), *(f"hypotheses {stem}" for stem in STEMS)]


@pytest.fixture(scope="session")
def packages(arm: str) -> Path:
    """A folder with the wheels for ARM of what is installed here, kept in the cache for the next run."""
    root = Path(arm.split()[-1]).parents[2]
    wanted = [f"{name}=={version(name)}" for name in NEEDED]
    key = hashlib.sha256(" ".join(wanted).encode()).hexdigest()[:12]
    folder = this_user.cache_folder() / "arm_reference" / f"tests-{key}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as name:
            part = Path(name) / "packages"
            try:
                python_root.install_wheels(part, python_root.python_version(root), wanted)
            except LinkError as error:
                pytest.skip(f"wheels for ARM cannot be fetched: {error}")
            part.replace(folder)
    return folder


def lines_on_arm(arm: str, packages: Path, processor: str, words: list[str], own_cache: Path) -> list[str]:
    folders = [packages, ROOT, *(ROOT / name for name in ("verifier", "agents", "farm"))]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COVERAGE", "QVERIFY_"))}
    done = subprocess.run(
        [*shlex.split(arm.replace(python_root.CPU, processor, 1)), "-m", "tests.emulated.results_of_floats", *words],
        cwd=ROOT,
        env={**kept, "PYTHONPATH": os.pathsep.join(map(str, folders)), "XDG_CACHE_HOME": str(own_cache)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout.splitlines()


def lines_here(words: list[str]) -> list[str]:
    split = [(w, *w.partition(" ")[::2]) for w in words]
    return [f"{w} | {name} = {value}" for w, kind, argument in split for name, value in KINDS[kind](argument)]


@pytest.mark.parametrize("processor", PROCESSORS)
def test_functions_and_networks(processor: str, arm: str, packages: Path, tmp_path: Path) -> None:
    """The verifier's own functions of float64, model.bin and the simulator's tensors of a network of integers and of one of
    floats."""
    words = ["functions", "networks"]
    wanted = lines_here(words)
    assert len(wanted) > 40 and any("floats model.bin" in line for line in wanted)
    assert lines_on_arm(arm, packages, processor, words, tmp_path) == wanted
    note_exercised(f"{processor} (QEMU)")


@pytest.mark.parametrize("record", RECORDS)
def test_records(record: str, arm: str, packages: Path, tmp_path: Path) -> None:
    """Explanations of faults of float operators, and the bytes of pages of hypotheses, are as recorded."""
    wanted = []
    if record.startswith("explanation"):
        lines = next(lines for plant, lines in recorded().items() if record == f"explanation {plant}")
        wanted = [f"{record} | {number} = {line}" for number, line in enumerate(lines)]
    assert lines_on_arm(arm, packages, PROCESSORS[-1], [record], tmp_path) == wanted


def test_every_page_has_a_record() -> None:
    assert EXPLAINED.keys() == {*PAGES}
