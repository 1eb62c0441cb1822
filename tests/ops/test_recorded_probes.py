"""The probes of every op are those of tests/ops/probes_of_ops.txt, and the runtime computes them as the simulator does."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.model_bin.records import encode
from qverify.tensors.digest import tensor_digest
from qverify.triage.probe_models import probe_models

from tests.ops.case_files import FILES
from tests.ops.recorded_probes import cases_of, lines_of, recorded
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import digests


@pytest.mark.parametrize("stem", FILES)
def test_the_probes_of_every_op_are_as_recorded(stem: str):
    assert lines_of(stem) == recorded()[stem], (
        "if this is wanted, `python -m tests.ops.recorded_probes` records them anew; say in the commit what changed"
    )


def test_no_other_op_is_recorded():
    assert [*recorded()] == [*FILES]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("stem", [stem for stem, lines in recorded().items() if lines])
def test_the_runtime_computes_the_probes_as_the_simulator_does(stem: str, tmp_path: Path):
    ran = 0
    for name, case in cases_of(stem):
        for probe in probe_models(case):
            graph = probe.case.graph
            (tmp_path / "model.bin").write_bytes(encode(graph))
            for at, given in enumerate(graph.inputs):
                (tmp_path / f"{at}.bin").write_bytes(probe.case.inputs[given].tobytes())
            output = digests(binary(False), tmp_path, [*graph.inputs])[probe.case.output]
            assert output == tensor_digest(probe.case.healthy), (name, probe.shape)
            ran += 1
    assert ran
