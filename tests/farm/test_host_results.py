"""The stored results of the reference and the simulator."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import numpy as np
import pytest
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.session.host_sides import HostSides, SideResults
from qverify.session.models import Models, open_models
from qverify.session.other_jobs.demo import SOURCE, write_example
from qverify.tensors.prepared import PreparedInputs
from qverify_farm.work import host_results
from qverify_farm.work.host_results import HostResultDamaged, HostResults, result_key


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Models, PreparedInputs, SideResults]:
    folder = tmp_path_factory.mktemp("example") / "files"
    write_example(str(folder))
    models = open_models([str(folder / SOURCE)])
    prepared = prepared_inputs(models.graph, InputRequest(str(folder / "digits/digit_3.npy")))
    return models, prepared, HostSides(models).run(prepared, True)


def test_results_are_read_as_they_were_stored(tmp_path: Path, ran: tuple[Models, PreparedInputs, SideResults]) -> None:
    models, _, wanted = ran
    HostResults(tmp_path).put("ab12", wanted)
    found = HostResults(tmp_path).get("ab12", models.graph)
    assert found is not None
    got = found.fresh()
    assert (
        got.plain == wanted.plain and got.canary == wanted.canary and got.recordings.keys() == wanted.recordings.keys()
    )
    for side, recording in wanted.recordings.items():
        one = got.recordings[side]
        for field in dataclasses.fields(recording):
            if field.name != "tensors":
                assert getattr(one, field.name) == getattr(recording, field.name), field.name
        assert one.tensors.keys() == recording.tensors.keys()
        for name, value in recording.tensors.items():
            assert one.tensors[name].dtype == value.dtype and np.array_equal(one.tensors[name], value)


def test_one_job_does_not_see_the_changes_of_another(
    tmp_path: Path, ran: tuple[Models, PreparedInputs, SideResults]
) -> None:
    store = HostResults(tmp_path)
    store.put("ab12", ran[2])
    first, second = (store.get("ab12", ran[0].graph) for _ in range(2))
    assert first is not None and first is second
    first.fresh().recordings["simulator"].notes.append("mine")
    assert first.fresh().recordings["simulator"].notes == ran[2].recordings["simulator"].notes


@pytest.mark.parametrize("file", ["values.bin", "results.json"])
def test_damaged_results_are_not_returned(
    tmp_path: Path, ran: tuple[Models, PreparedInputs, SideResults], file: str
) -> None:
    """One bit in the middle is flipped; the result can then be stored again."""
    store = HostResults(tmp_path)
    store.put("ab12", ran[2])
    data = bytearray((store.path("ab12") / file).read_bytes())
    data[len(data) // 2] ^= 1
    (store.path("ab12") / file).write_bytes(data)
    assert store.get("ab12", ran[0].graph) is None and not store.path("ab12").exists()
    store.put("ab12", ran[2])
    assert store.get("ab12", ran[0].graph) is not None


@pytest.mark.parametrize("change", ["other values", "cut short"])
def test_values_that_change_later_are_not_returned(
    tmp_path: Path, ran: tuple[Models, PreparedInputs, SideResults], change: str
) -> None:
    """The file changes after it was loaded and checked. The result can then be stored again."""
    store = HostResults(tmp_path)
    store.put("ab12", ran[2])
    found = store.get("ab12", ran[0].graph)
    assert found is not None and not found.values.damaged
    size = found.values.path.stat().st_size
    found.values.path.write_bytes(b"\xa5" * size if change == "other values" else b"")
    tensors = found.fresh().recordings["simulator"].tensors
    for name in tensors:
        with pytest.raises(HostResultDamaged, match="changed in this host's cache"):
            tensors[name]
    assert found.values.damaged
    store.discard("ab12", found)
    assert store.get("ab12", ran[0].graph) is None
    store.put("ab12", ran[2])
    store.discard("ab12", found)  # another result by now
    assert store.get("ab12", ran[0].graph) is not None


def test_the_first_of_two_results_is_kept(tmp_path: Path, ran: tuple[Models, PreparedInputs, SideResults]) -> None:
    store = HostResults(tmp_path)
    store.put("ab12", ran[2])
    before = (store.path("ab12") / "results.json").stat().st_ino
    store.put("ab12", ran[2])
    assert (store.path("ab12") / "results.json").stat().st_ino == before
    assert [path.name for path in (tmp_path / "ab").iterdir()] == ["ab12"]


def test_old_results_are_removed_for_new_ones(tmp_path: Path, ran: tuple[Models, PreparedInputs, SideResults]) -> None:
    """Results of the last hour are kept, also above the limit."""
    store = HostResults(tmp_path, 1000)
    for key in ("ab12", "cd34"):
        store.put(key, ran[2])
    old = time.time() - 2 * host_results.KEEP_S
    os.utime(store.path("ab12"), (old, old))
    store.put("ef56", ran[2])
    assert [store.path(key).exists() for key in ("ab12", "cd34", "ef56")] == [False, True, True]


def test_a_key_changes_with_everything_the_result_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    key = result_key("models", "inputs", True)
    assert key == result_key("models", "inputs", True)
    others = [
        result_key("others", "inputs", True),
        result_key("models", "others", True),
        result_key("models", "inputs", False),
    ]
    monkeypatch.setattr(host_results, "_software_versions", lambda: ("another version",))
    assert len({key, *others, result_key("models", "inputs", True)}) == 5
