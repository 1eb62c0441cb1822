"""The real networks: every node of every model, reference, simulator and board."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify.compare.options import Options
from qverify.session.job import verify
from qverify.session.request import Request

from tests.conftest import need_models, real_models

pytestmark = need_models()


@pytest.mark.parametrize("path", real_models(), ids=lambda p: p.stem)
def test_three_sides_agree_at_every_node(path: Path):
    report = verify(Request([str(path)], "local", options=Options(dump_all=True))).report
    assert report.verdict == "PASSED"
    pairs = {(p.a, p.b): p for p in report.pairs}
    assert pairs["simulator", "board"].bit_equal
    assert all(r.forced is not None and r.forced.verdict == "PASSED" for p in report.pairs for r in p.tensors)
    if not report.no_integer_reference:
        assert pairs["reference", "simulator"].bit_equal
