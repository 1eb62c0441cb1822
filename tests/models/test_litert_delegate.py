"""A fault in a delegate of the tests' own, built from C: found and located, by dumps of every node and by final outputs alone."""

from __future__ import annotations

import json

import pytest
from qverify.cli.main import main

from tests.conftest import MODELS, need_models
from tests.litert_delegate import board, built_delegate, reduce, spoilable, verify

pytest.importorskip("ai_edge_litert", reason="ai-edge-litert is not installed")
pytestmark = need_models()
TFLITE = MODELS / "resnet8_cifar10" / "resnet8_cifar10_int8.tflite"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    try:
        return built_delegate(tmp_path_factory.mktemp("delegate"))
    except RuntimeError as error:
        pytest.skip(str(error))


def test_a_delegate_that_computes_rightly_passes_with_every_tensor(library, tmp_path):
    status, report = verify(TFLITE, board(library, None, 0, finals=False, more="kind=3"), tmp_path)
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    assert status == 0 and pair["coverage"]["compared"] == 16
    (side,) = [s for s in report["sides"] if s["name"] == "board"]
    notes = [*report["notes"], *side.get("notes", [])]
    assert any(
        "9 of 16 nodes ran on libspoiling_delegate.so; 7 of 16 nodes ran on LiteRT's kernels" in n for n in notes
    )
    assert any("joined, as in use, it gives the same outputs" in n for n in notes)


@pytest.mark.parametrize("position", [0, 3, 6, 12, 13, 14, 15])
def test_its_fault_is_found_at_its_node(position, library, tmp_path):
    one = spoilable(TFLITE)[position]
    status, report = verify(TFLITE, board(library, one, position, finals=False), tmp_path)
    assert status == 1 and report["blame"]["side"] == "board" and report["blame"]["node"] in one.names


@pytest.mark.parametrize("position", [1, 15])
def test_its_fault_is_located_by_final_outputs_alone(position, library, tmp_path):
    """The delegate joins all nodes, and shows none of them: parts of the file are run one by one."""
    one = spoilable(TFLITE)[position]
    uri = board(library, one, position, finals=True)
    status, report = verify(TFLITE, uri, tmp_path)
    assert status == 1 and report["blame"] is None
    status, triage = reduce(TFLITE, uri, tmp_path)
    assert status == 1 and triage["reduced"]["state"] == "reduced" and triage["reduced"]["node"] in one.names
    assert "qverify -m part.tflite -b 'finals:local?runtime=litert" in (tmp_path / "reduced" / "README.md").read_text()


def test_a_bundle_says_what_runs_on_its_board(library, tmp_path):
    one = spoilable(TFLITE)[15]
    uri = board(library, one, 1, finals=True).replace("runtime=litert&", "")
    assert reduce(TFLITE, uri, tmp_path, "--runtime", "litert")[0] == 1
    assert " --runtime litert -i inputs.npz -r True" in (tmp_path / "reduced" / "README.md").read_text()


def test_a_healthy_delegate_has_nothing_to_reduce(library, tmp_path):
    status, triage = reduce(TFLITE, board(library, None, 0, finals=True), tmp_path)
    assert status == 0 and triage["reduced"]["state"] == "nothing"


def test_a_node_is_run_by_itself_for_triage(library, tmp_path):
    """The fault's experiments run the operator alone, on the delegate."""
    one = spoilable(TFLITE)[3]
    report = tmp_path / "triage.json"
    words = ["triage", "-m", str(TFLITE), "-b", board(library, one, 1, finals=False), "-q", "--json", str(report)]
    assert main(words) == 1
    text = json.dumps(json.loads(report.read_text()))
    assert next(iter(one.names)) in text and "runs no single node" not in text


def test_an_option_that_it_lacks_is_one_line(library, tmp_path):
    status, report = verify(TFLITE, board(library, None, 0, finals=False, more="colour=red"), tmp_path)
    assert status == 3 and "unknown option colour" in json.dumps(report)


def test_perf_times_each_operator_by_itself(library, tmp_path):
    times = tmp_path / "perf.json"
    words = [
        "perf",
        "-m",
        str(TFLITE),
        "-b",
        board(library, None, 0, finals=False),
        "--runs",
        "2",
        "--json",
        str(times),
    ]
    assert main(words) == 0
    document = json.loads(times.read_text())
    assert len(document["nodes"]) == 16 and document["runs"] == 2
    assert "each operator ran by itself" in document["notes"][0]
