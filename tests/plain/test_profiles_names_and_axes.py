"""Names pair one to one or not at all, axes in the one way that fits or not at all; what looks like no dump is told in one line."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qverify.cli.main import main
from qverify.profiles import names, page
from qverify.sides.dumps.vendor_axes import Unsettled, arrange_axes
from qverify.sides.dumps.vendor_names import NamedTensor, common_spelling, pair_by_index, pair_names
from qverify.vendor_files.printed_numbers import numbers
from qverify.vendor_files.vendor_dump import spelled_loosely

NAMES = st.lists(st.text("ab/:_.", min_size=1, max_size=4), max_size=8, unique=True)


@given(NAMES, NAMES)
def test_pairs_are_one_to_one_and_only_of_what_is_spelled_alike(written, true):
    here = sorted({spelled_loosely(n) for n in written})
    found = pair_names(
        [NamedTensor((n,)) for n in here], [NamedTensor((n,)) for n in true], common_spelling(spelled_loosely, None)
    )
    assert len(set(found.b_of_a.values())) == len(found.b_of_a)
    for name, other in found.b_of_a.items():
        assert [t for t in true if spelled_loosely(t) == name] == [other]
    for name in here:
        alike = [t for t in true if spelled_loosely(t) == name]
        assert (name in found.b_of_a) == (len(alike) == 1) and (name in found.doubtful) == (len(alike) > 1)


def test_the_models_other_names_make_a_pair_doubtful():
    found = pair_names([NamedTensor(("a_b",))], [NamedTensor(("a/b",))], spelled_loosely, ["a/b", "a:b"])
    assert found.b_of_a == {} and set(found.doubtful) == {"a_b", "a/b"}


def test_the_index_says_the_name_and_the_name_has_to_agree():
    side = [NamedTensor(("x_1",), 0), NamedTensor(("y",), 1), NamedTensor(("#2",), 2), NamedTensor(("z",), 9)]
    outputs, there = ("x/1", "other", "third"), {"x/1", "other", "third"}
    found = pair_names(side, [NamedTensor((n,)) for n in there], spelled_loosely)
    pair_by_index(found, side, outputs, there)
    assert found.b_of_a == {"x_1": "x/1", "#2": "third"} and set(found.doubtful) == {"y", "z"}


@given(st.permutations(range(4)), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_an_arrangement_gives_the_wanted_shape_or_is_refused(order, dims):
    have, want = tuple(dims), tuple(dims[i] for i in order)
    try:
        way = arrange_axes(have, want, "NHWC", "")
    except Unsettled:
        return
    values = np.arange(int(np.prod(have))).reshape(have)
    moved = values.transpose(way.order)
    assert moved.reshape(way.shape).shape == want
    assert [d for d in moved.shape if d != 1] == [d for d in want if d != 1]


@pytest.mark.parametrize(
    ("have", "want", "layout", "wanted", "said"),
    [
        ((1, 8, 8, 3), (1, 3, 8, 8), "NHWC", "", "NHWC to NCHW"),
        ((1, 3, 8, 8), (1, 8, 8, 3), "", "", "NCHW to NHWC"),
        ((1, 4, 4, 4), (1, 4, 4, 4), "NHWC", "NCHW", "NHWC to NCHW"),
        ((1, 4, 4, 4), (1, 4, 4, 4), "NHWC", "NHWC", ""),
        ((1, 4, 4, 4), (1, 4, 4, 4), "", "", ""),
        ((1, 1, 1, 9), (1, 9), "NHWC", "", "[1, 1, 1, 9] taken as [1, 9]"),
    ],
)
def test_axes(have, want, layout, wanted, said):
    assert arrange_axes(have, want, layout, wanted).note == said


@pytest.mark.parametrize(("have", "want"), [((1, 4, 4, 4), (1, 4, 4, 4)), ((2, 3), (3, 2)), ((1, 2, 3, 4), (1, 24))])
def test_axes_that_are_not_guessed(have, want):
    with pytest.raises(Unsettled):
        arrange_axes(have, want, "NHWC", "")


@given(st.lists(st.floats(-1000, 1000), min_size=1, max_size=40), st.integers(0, 9))
def test_numbers_of_a_text_are_within_half_of_their_last_decimal(values, decimals):
    got, known = numbers(" ".join(f"{v:.{decimals}f}" for v in values).encode(), len(values), "x")
    assert known == (decimals or None)
    assert np.all(np.abs(got - values) <= 0.5001 * 10.0**-decimals)


@given(st.lists(st.floats(-1000, 1000), min_size=1, max_size=40), st.integers(2, 9))
def test_significant_digits_claim_no_more_decimals_than_there_are(values, digits):
    tokens = [f"{v:.{digits}g}" for v in values]
    got, known = numbers(" ".join(tokens).encode(), len(values), "x")
    if known is not None and len({len(t.partition(".")[2]) for t in tokens}) > 1:
        assert np.all(np.abs(got - values) <= 0.5001 * 10.0**-known)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    st.integers(1, 9),
    st.sampled_from(["1.5e0", "7", "nan", "+1.0"]),
)
def test_one_number_of_another_form_changes_no_other_value(values, decimals, odd):
    """Blocks of one form are read at once, others number by number."""
    tokens = [f"{v:.{decimals}f}" for v in values]
    quick, _ = numbers(", ".join(tokens).encode(), len(values), "x")
    slow, _ = numbers("\n".join([*tokens, odd]).encode(), len(values) + 1, "x")
    assert np.array_equal(quick, slow[:-1])


def test_numbers_across_blocks():
    text = b"0.123456  " * 300_000
    got, known = numbers(text, 300_000, "x")
    assert known == 6 and np.all(got == 0.123456) and all(a == b for a, b in pairwise(got[:9]))


@pytest.mark.parametrize("name", names())
def test_every_page_says_what_it_wants_of_an_empty_folder_and_of_garbage(name, tmp_path, capsys):
    np.savez(tmp_path / "a.npz", x=np.zeros(3, np.float32))
    (tmp_path / "empty").mkdir()
    (tmp_path / "garbage").write_bytes(bytes(range(256)) * 9)
    assert page(name).WANTED
    for path in ("empty", "garbage"):
        assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / path), "--profile-b", name]) == 2
        assert capsys.readouterr().err.count("\n") == 1
        assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / path)]) == 2
        shown = capsys.readouterr().err
        assert shown.count("\n") == 1 and "--profile NAME" in shown and "wanted" in shown
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "a.npz"), "--profile", "no-vendor"]) == 2
    assert ", ".join(names()) in capsys.readouterr().err
