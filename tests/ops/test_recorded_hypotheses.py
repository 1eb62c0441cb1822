"""Every page of hypotheses computes what it did when tests/ops/hypotheses_of_ops.txt and hypotheses_of_shapes.txt were
written."""

from __future__ import annotations

import pytest

from tests.ops import recorded_shapes
from tests.ops.asymmetric_nodes import NODES
from tests.ops.case_files import FILES
from tests.ops.recorded_hypotheses import INEXACT, changed, differing, fold, recorded


@pytest.mark.parametrize("stem", FILES)
def test_every_page_computes_what_was_recorded(stem: str):
    names = changed(stem)
    assert not names, (
        f"of {stem}, {len(names)} pages differ from tests/ops/hypotheses_of_ops.txt: {', '.join(names[:20])}"
        f" (`python -m tests.ops.recorded_hypotheses --lines {stem}` prints units and ways, to compare two checkouts). If"
        " this is wanted, `python -m tests.ops.recorded_hypotheses` records them anew; say in the commit which pages changed."
    )


def test_no_other_op_is_recorded():
    assert [*recorded()] == [*FILES]


@pytest.mark.parametrize("stem", NODES)
def test_the_pages_of_an_op_compute_at_asymmetric_shapes_what_was_recorded(stem: str):
    names = recorded_shapes.changed(stem)
    assert not names, (
        f"of {stem}, {len(names)} pages differ from tests/ops/hypotheses_of_shapes.txt: {', '.join(names[:20])}."
        " If this is wanted, `python -m tests.ops.recorded_shapes` records them anew; say in the commit which pages changed."
    )


def test_no_other_asymmetric_node_is_recorded():
    assert [*recorded_shapes.recorded()] == [*NODES]


def test_a_line_that_is_part_of_a_folded_one_counts():
    """Another array, another sentence, a unit more or less; of pages with sums, a sum that is not nearly the same."""
    page = min(INEXACT)
    lines = {
        "a.0 random tiles": "16 00867126 4264704c",
        "a.1 random tiles": "24 0be64ac1 8877935e",
        f"a.0 random {page}": "2 0be64ac1 1.5 2.5",
    }
    same, other = fold(lines), [f"a.0 random {page}"]
    assert same == [
        f"a.0 random {page}: 2 0be64ac1 1.5 2.5",
        *(line for line in same if line.startswith("tiles: 2 40 ")),
    ]
    assert not differing(same, fold(lines | {other[0]: "2 0be64ac1 1.50000000001 2.5"}))
    assert differing(same, fold(lines | {other[0]: "2 0be64ac1 1.501 2.5"})) == other
    for text in ("16 00867126 4264704d", "16 00867127 4264704c", "17 00867126 4264704c"):
        assert differing(same, fold(lines | {"a.0 random tiles": text})) == ["tiles"]
    assert differing(same, fold(lines | {"a.2 random tiles": "16 00867126 4264704c"})) == ["tiles"]
    assert differing(same, fold({other[0]: lines[other[0]]})) == ["tiles"] and differing(same, []) == [*other, "tiles"]
