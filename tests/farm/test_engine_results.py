"""Engines that are further sides of the farm's jobs: named in boards.toml, run once for the same model and inputs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.errors import UsageError
from qverify.session.host_sides import SideResults
from qverify.session.models import open_models
from qverify.session.other_jobs.demo import SOURCE, write_example
from qverify.tensors.placement import Placement
from qverify.tensors.recording import Recording, Untapped
from qverify.tensors.spec import TensorSpec
from qverify_farm.work.engine_results import _versions
from qverify_farm.work.host_results import HostResults, result_key
from qverify_farm.work.job_options import check_engines_are_listed, check_options
from qverify_farm.work.job_task import JobResult
from qverify_farm.work.run_job import run_job
from qverify_farm.work.worker import JobWorker

from tests.farm.example_jobs import ALL_NODES, FAULTY, IMAGES, ExampleJobs
from tests.onnx_engine import engine_command


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> ExampleJobs:
    return ExampleJobs.make(tmp_path_factory.mktemp("farm"))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[JobWorker]:
    made = JobWorker(tmp_path / "cache")
    yield made
    made.close()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which the engine adds a letter in each run. boards.toml names the engine: host_engine."""
    log = tmp_path / "runs"
    log.write_text("")
    inventory = tmp_path / "boards.toml"
    inventory.write_text(f"[engines.host_engine]\nruntime = 'command'\ncommand = '''{engine_command(log)}'''\n")
    monkeypatch.setenv("QVERIFY_BOARDS", str(inventory))
    return log


def pairs_of(jobs: ExampleJobs, result: JobResult) -> dict[str, str]:
    report: dict[str, Any] = json.loads(jobs.store.read(result.report))
    return {f"{pair['a']} ~ {pair['b']}": pair["verdict"] for pair in report["pairs"]}


OPTIONS = {**ALL_NODES, "simulator": ["host_engine"]}


def test_two_boards_run_the_engine_once(jobs: ExampleJobs, worker: JobWorker, runs: Path) -> None:
    good = run_job(jobs.task(options=OPTIONS), worker)
    assert (good.verdict, good.why) == ("PASSED", "")
    assert pairs_of(jobs, good)["command ~ board"] == "PASSED"
    bad = run_job(jobs.task(FAULTY, options=OPTIONS), worker)
    assert (bad.verdict, bad.blame_side) == ("FAILED", "board")
    assert pairs_of(jobs, bad)["reference ~ command"] == "PASSED"
    assert runs.read_text() == "x"
    run_job(jobs.task(options=OPTIONS, inputs=IMAGES[1]), worker)
    assert runs.read_text() == "xx"


def test_an_engine_takes_the_place_of_ours(jobs: ExampleJobs, worker: JobWorker, runs: Path) -> None:
    result = run_job(jobs.task(options={**ALL_NODES, "run_sim": "host_engine"}), worker)
    assert pairs_of(jobs, result) == dict.fromkeys(
        ("reference ~ command", "reference ~ board", "command ~ board"), "PASSED"
    )
    result = run_job(jobs.task(options={**ALL_NODES, "reference": "host_engine"}), worker)
    assert "command ~ simulator" in pairs_of(jobs, result) or "simulator ~ command" in pairs_of(jobs, result)
    assert not any("reference" in pair for pair in pairs_of(jobs, result))


def test_an_engine_that_failed_is_run_again(jobs: ExampleJobs, worker: JobWorker, tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = f"command,command=echo x >>{log}; : {{model}} {{npy}} {{out}}; exit 3"
    task = jobs.task(options={**ALL_NODES, "simulator": [text]}, own_engines=True)
    for number in (1, 2):
        result = run_job(replace(task, job=f"job{number}"), worker)
        assert result.verdict == "INCONCLUSIVE" and "status 3" in result.why
        assert log.read_text() == "x\n" * number


@pytest.mark.parametrize(
    "options",
    [
        {"simulator": ["command,command=touch /tmp/x"]},
        {"run_sim": "openvino,python=/bin/evil"},
        {"reference": "command,command=id"},
        {"simulator": ["a b"]},
    ],
)
def test_a_request_names_engines_and_writes_none_out(
    options: dict[str, Any], jobs: ExampleJobs, worker: JobWorker
) -> None:
    keyword = next(iter(options))
    (mistake,) = check_options(options, ())
    assert mistake.startswith(f"{keyword}: got ") and "wanted the name of an engine" in mistake
    refused = run_job(jobs.task(options=options), worker)
    assert refused.ending == "refused" and "wanted the name of an engine" in refused.why
    assert not [line for line in check_options(options, (), own_engines=True) if "wanted the name" in line]


def test_a_mistake_in_a_suites_own_engine_is_found_before_it_runs() -> None:
    options = {"simulator": ["openvin,python=p", "openvino,pyton=p"], "reference": "tflm,python=p", "run_sim": "mine"}
    assert [line.partition(";")[0] for line in check_options(options, (), own_engines=True)] == [
        "simulator: --simulator openvin: no such engine",
        "simulator: --simulator pyton: runner openvino has no such option",
    ]


@pytest.mark.parametrize("options", [{"simulator": ["openvino"]}, {"run_sim": "openvino"}, {"reference": "openvino"}])
def test_an_engine_that_the_host_does_not_name_is_refused(
    options: dict[str, Any], jobs: ExampleJobs, worker: JobWorker, runs: Path
) -> None:
    """Its page exists, and would start whatever python3 is there."""
    assert check_options(options, ()) == []
    with pytest.raises(UsageError, match=r"boards.toml has host_engine; wanted a table \[engines.openvino\]"):
        check_engines_are_listed(options)
    refused = run_job(jobs.task(options=options), worker)
    assert refused.ending == "refused" and "openvino: no such engine on the host" in refused.why


def test_onnxruntime_is_a_reference_everywhere() -> None:
    check_engines_are_listed({"reference": "onnxruntime", "run_sim": False})


def test_a_stored_engine_has_everything_that_it_said(tmp_path: Path) -> None:
    write_example(str(tmp_path / "example"))
    graph = open_models([str(tmp_path / "example" / SOURCE)]).graph
    name = graph.outputs[0]
    recording = Recording("openvino", "openvino", "2026.4", runtime="openvino", finals=graph.outputs, is_engine=True)
    recording.specs = {name: TensorSpec(name, "float64", (10,))}
    recording.tensors = {name: np.arange(10.0)}
    recording.placement = (Placement("Conv_0", "Conv", "CPU", "brgemm f32", True),)
    recording.ledger = {"driver": "1"}
    recording.untapped = Untapped({name: np.ones(10)}, level="basic", optimizers=("a", "b"))
    recording.containers, recording.notes = {name: "flat"}, ["said"]
    store = HostResults(tmp_path / "store")
    store.put(result_key("k"), SideResults({"openvino": recording}))
    result = store.get(result_key("k"), graph)
    assert result is not None
    got = result.fresh().recordings["openvino"]
    for field in ("specs", "placement", "ledger", "containers", "notes", "is_engine", "runtime", "finals", "state"):
        assert getattr(got, field) == getattr(recording, field), field
    assert got.untapped is not None and got.untapped.optimizers == ("a", "b") and got.untapped.level == "basic"
    assert np.array_equal(got.untapped.tensors[name], np.ones(10)) and np.array_equal(
        got.tensors[name], np.arange(10.0)
    )


def test_an_interpreter_tells_what_it_has(tmp_path: Path) -> None:
    assert "numpy" in _versions(sys.executable) and sys.version in _versions(sys.executable)
    assert _versions(str(tmp_path / "none")) == "" and _versions("'") == ""
