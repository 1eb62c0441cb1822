"""Every page of hypotheses computes what it did when tests/ops/hypotheses_of_ops.txt and hypotheses_of_shapes.txt were
written."""

from __future__ import annotations

import pytest

from tests.ops import recorded_shapes
from tests.ops.asymmetric_nodes import NODES
from tests.ops.case_files import FILES
from tests.ops.recorded_hypotheses import changed, recorded


@pytest.mark.parametrize("stem", FILES)
def test_every_page_computes_what_was_recorded(stem: str):
    names = changed(stem)
    assert not names, (
        f"of {stem}, {len(names)} differ from tests/ops/hypotheses_of_ops.txt (case.unit, way, page): {', '.join(names[:20])}. If"
        " this is wanted, `python -m tests.ops.recorded_hypotheses` records them anew; say in the commit which pages changed."
    )


def test_no_other_op_is_recorded():
    assert [*recorded()] == [*FILES]


@pytest.mark.parametrize("stem", NODES)
def test_the_pages_of_an_op_compute_at_asymmetric_shapes_what_was_recorded(stem: str):
    names = recorded_shapes.changed(stem)
    assert not names, (
        f"of {stem}, {len(names)} differ from tests/ops/hypotheses_of_shapes.txt (node, output, page): {', '.join(names[:20])}."
        " If this is wanted, `python -m tests.ops.recorded_shapes` records them anew; say in the commit which pages changed."
    )


def test_no_other_asymmetric_node_is_recorded():
    assert [*recorded_shapes.recorded()] == [*NODES]
