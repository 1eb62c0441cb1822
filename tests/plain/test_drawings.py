"""Tests what is drawn of tensors: the numbers are those of the arrays, however they are read, and no verdict reads them."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.drawings.draw_tensor import FIRST, draw_tensor
from qverify.compare.drawings.error_maps import map_errors
from qverify.compare.drawings.inputs import draw_inputs
from qverify.compare.options import Options
from qverify.compare.paired_values import PairedValues
from qverify.compare.verdict import judge_all
from qverify.model_bin.units import units
from qverify.renderers import formats, terminal
from qverify.renderers.drawings import panels, png, svg
from qverify.renderers.drawings.plot_files import write_plots
from qverify.renderers.html_page.tensor_drawings import anchors
from qverify.renderers.text_view import TextView
from qverify.report.document import ReportDocument
from qverify.report.drawings import MAX_DRAWN, TensorDrawing
from qverify.report.report_json import to_json
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.recording import Array
from qverify.tensors.spec import TensorSpec

from tests.plain.test_report_formats import NASTY, Page
from tests.plain.three_sides import X, chain, record, side, step, three, two, wrong_at

DRAW = Options(dump_all=True, drawings=True)
RNG = np.random.default_rng(5)


def draw(a: Array, b: Array, scale: float = 0.0, zero: int = 0) -> TensorDrawing:
    spec = TensorSpec("t", a.dtype.name, a.shape, scale=(scale,) if scale else (), zero_point=(zero,) if scale else ())
    return draw_tensor(lambda: PairedValues(a, b, spec, replace(spec, dtype=b.dtype.name)), "conv", "differs")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float16"])
def test_every_count_is_that_of_the_arrays(dtype):
    a = (RNG.integers(0, 120, (2, 5, 61, 70))).astype(dtype)
    b = a.copy()
    b[1, 3, 7:20, 30:] += np.ones((), dtype)
    drawn = draw(a, b, 0.25 if a.dtype.kind in "iu" else 0.0, 3)
    differ = int((a != b).sum())
    assert drawn.differing == differ == sum(n for _, n in drawn.differences) + drawn.others
    assert drawn.density is not None and int(drawn.density.counts.sum()) == a.size
    assert drawn.values is not None and int(drawn.values.a.sum()) == a.size
    assert drawn.values.b is not None and int(drawn.values.b.sum()) == a.size
    assert [d.index for d in drawn.first] == [tuple(map(int, i)) for i in np.argwhere(a != b)[:FIRST]]
    assert all((d.a, d.b) == (a[d.index].item(), b[d.index].item()) for d in drawn.first)
    if a.dtype.kind in "iu":
        assert drawn.unit == "LSB" and drawn.differences == [("+1", differ)]


def test_a_map_is_the_maximum_of_each_cell_and_the_worst_channel_leads():
    a = np.zeros((1, 4, 100, 144), np.int8)
    b = a.copy()
    b[0, 2, 99, 143], b[0, 2, 0, 0], b[0, 1, 50, 50] = -100, 27, 60
    maps = map_errors(PairedValues(a, b, *[TensorSpec("t", "int8", a.shape)] * 2))
    assert maps.plane == (100, 144) and maps.channels == 4
    assert [m.channel for m in maps.maps] == [None, 2, 1] and [m.total for m in maps.maps] == [187, 127, 60]
    whole, worst = maps.maps[0].cells, maps.maps[1].cells
    assert whole.shape == (48, 48) and (whole[-1, -1], whole[0, 0]) == (100, 27) and whole.max() == 100
    assert np.count_nonzero(whole) == 3 and np.count_nonzero(worst) == 2


def test_int8_from_end_to_end_is_255_lsb():
    a, b = np.full((2, 8), -128, np.int8), np.full((2, 8), 127, np.int8)
    drawn = draw(a, b, 0.5)
    assert drawn.differences == [("+255", 16)] and drawn.maps is not None and drawn.maps.maps[0].cells.max() == 255
    assert drawn.values is not None and drawn.values.quantized == (-64.0, 63.5)
    assert (drawn.values.clipped_a, drawn.values.clipped_b) == ((16, 0), (0, 16))


def test_what_is_not_finite_is_drawn_as_that():
    a = np.array([1, np.nan, np.inf, 4, np.nan, 6], np.float32)
    b = np.array([1, np.nan, np.inf, np.inf, 5, 7], np.float32)
    drawn = draw(a, b)
    assert drawn.differing == 3 and [d.index for d in drawn.first] == [(3,), (4,), (5,)]
    assert drawn.maps is not None and np.isinf(drawn.maps.maps[0].cells).sum() == 2
    for figure in panels.figures(drawn, "a", "b"):
        assert "nan" not in svg.draw(figure)
    nothing = draw(np.full(4, np.nan, np.float32), np.full(4, np.inf, np.float32))
    assert nothing.values is None and nothing.density is None and panels.figures(nothing, "a", "b")


@pytest.mark.parametrize("shape", [(), (1,), (7,), (1, 1000), (3, 1, 1), (2, 3), (1, 2, 70_000)])
def test_every_shape_can_be_drawn(shape):
    a = np.zeros(shape, np.uint8)
    b = a.copy()
    b[(0,) * len(shape)] = 9
    drawn = draw(a, b, 1.0)
    assert drawn.maps is not None and drawn.maps.maps[0].cells.max() == 9 and drawn.differing == 1
    assert all(svg.document(f).startswith("<svg") for f in panels.figures(drawn, "a", "b"))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([[0, 1], [0, 1]], bool), np.array([[0, 1], [1, 1]], bool)),
        (np.array([[0, 2**63 - 1]], np.int64), np.array([[-(2**63), 5]], np.int64)),
        (np.array([[0, 2**64 - 1]], np.uint64), np.array([[1, 5]], np.uint64)),
        (np.array([[-1.7e308, 1.7e308]]), np.array([[1.7e308, -1.7e308]])),
        (np.array([[1, 2, 3]], np.int8), np.array([[1, 2, 3.5]], np.float32)),
        (np.array([[5e-324, 0]]), np.array([[0, 5e-324]])),
    ],
)
def test_values_at_the_ends_of_their_types_are_drawn(a, b):
    drawn = draw(a, b)
    assert drawn.differing == int((a != b).sum()) == len(drawn.first)
    texts = [svg.document(f) for f in panels.figures(drawn, "a", "b")]
    assert texts and not any(word in text for text in texts for word in ('"nan', '"inf', '"-inf', " nan", ",nan"))


def test_drawings_change_no_verdict_and_no_json():
    plain, drawn = (three(board=wrong_at("n2"), options=o) for o in (Options(dump_all=True), DRAW))
    drawn.date = plain.date
    assert json.dumps(to_json(plain)) == json.dumps(to_json(drawn)) and "drawings" not in json.dumps(to_json(drawn))
    names = [[d.name for d in p.drawings] for p in drawn.pairs]
    assert names == [[*names[0]], ["n2", "y"], []] and set(names[0]) == {"n1", "n2", "y"}
    first = drawn.pairs[1].drawings[0]
    assert first.why == "fails when it is recomputed" and first.also == ["simulator ~ board"]
    assert first.differences == [("+1", 1)] and [d.index for d in first.first] == [(3,)]


def test_what_is_of_another_type_than_stated_is_not_drawn():
    for value in (X.astype(np.float32), X.reshape(5, 8), X.astype(np.complex64)):
        board = record("board")
        board.tensors["n2"] = value
        board.digests.pop("n2")
        report = two(record("reference"), board, DRAW)
        assert report.verdict == "FAILED" and "n2" not in {d.name for d in report.pairs[0].drawings}


def test_integers_and_floats_of_one_tensor_are_drawn():
    spec = TensorSpec("t", "int8", (4,), scale=(0.5,), zero_point=(0,))
    a, b = np.array([-128, 0, 1, 127], np.int8), np.array([-64, 0, 0.5, 9], np.float32)
    drawn = draw_tensor(lambda: PairedValues(a, b, spec, TensorSpec("t", "float32", (4,))), "", "")
    assert drawn.differing == 1 and drawn.unit == "" and drawn.values is not None
    assert (drawn.values.clipped_a, drawn.values.clipped_b) == ((1, 1), None) and panels.figures(drawn, "a", "b")


def test_only_the_blamed_tensor_is_drawn_unless_asked():
    assert [d.name for p in three(board=wrong_at("n2")).pairs for d in p.drawings] == ["n2"]
    assert not [d for p in three().pairs for d in p.drawings]


def test_another_node_that_fails_is_no_reason_to_draw_it_unasked():
    report = three(sim=wrong_at("y"), board=wrong_at("n2"), options=Options())
    assert report.blame is not None and report.blame.node == "n2"
    assert [(p.b, d.name) for p in report.pairs for d in p.drawings] == [("board", "n2")]


def drawn_of(report: ReportDocument) -> list[dict[str, list[str]]]:
    """Returns, for each pair, the drawn tensors with the other pairs that have the same bytes."""
    return [{d.name: d.also for d in pair.drawings} for pair in report.pairs]


def test_what_fails_when_it_is_recomputed_is_drawn_though_the_outputs_alone_are_compared():
    asked = Options(drawings=True)
    report = three(sim=wrong_at("n2"), board=wrong_at("n1"), options=asked)
    assert drawn_of(report)[0] == {"n2": [], "y": ["reference ~ board"]} and drawn_of(report)[1] == {}
    report = three(sim=wrong_at("n1"), board=wrong_at("n1"), options=asked)  # the same bytes in two pairs
    assert drawn_of(report)[:2] == [{"n1": ["reference ~ board"], "y": ["reference ~ board"]}, {}]
    report = three(sim=wrong_at("n2"), board=wrong_at("n2", 2), options=asked)  # in no two pairs
    assert drawn_of(report)[:2] == [{"n2": [], "y": []}] * 2


def test_tensors_without_digests_are_not_taken_for_the_same():
    sides = {n: side(n, y=[1.0, last]) for n, last in (("reference", 2.0), ("simulator", 3.0), ("board", 4.0))}
    sides["board"].digests = {"y": tensor_digest(sides["board"].tensors["y"])}
    assert drawn_of(judge_all(sides, None, [], DRAW, {}, None)) == [{"y": []}] * 3


@pytest.mark.parametrize("lacking", ["reference", "board"])
def test_bytes_that_one_side_alone_holds_stand_for_both_where_the_digests_are_equal(lacking):
    for board, found in ((step, [("a final output", 0, 40)]), (wrong_at("y"), [])):
        sides, graph = {"reference": record("reference"), "board": record("board", board)}, chain()
        del sides[lacking].tensors["y"], sides[lacking].specs["y"]
        report = judge_all(sides, graph, units(graph), DRAW, {"reference": step}, None, {"x": X})
        drawn = [d for d in report.pairs[0].drawings if d.name == "y"]
        assert [(d.why, d.differing, int(d.values.a.sum())) for d in drawn if d.values] == found


def test_each_side_is_drawn_with_the_scale_that_it_states():
    drawn = two(record("reference"), record("board", wrong_at("n2")), DRAW).pairs[0].drawings
    first = next(d for d in drawn if d.name == "n2")
    assert first.values is not None
    assert (first.values.quantized, first.values.clipped_a, first.values.clipped_b) == ((-64.0, 63.5), (0, 0), (0, 0))
    other = record("board", wrong_at("n2"))
    other.specs["n2"] = replace(other.specs["n2"], scale=(1.0,))
    sides, graph = {"reference": record("reference"), "board": other}, chain()
    report = judge_all(sides, graph, units(graph), DRAW, {}, None, {"x": X})
    values = next(d for d in report.pairs[0].drawings if d.name == "n2").values
    assert values is not None and (values.low, values.high) == (1.0, 41.0)  # 2 .. 41, half of it in the reference


def test_no_more_than_the_rule_says():
    many = {f"t{n:03d}": [float(n), 1.0] for n in range(MAX_DRAWN + 20)}
    worse = {name: [v[0], v[1] + int(name[1:]) / 100] for name, v in many.items()}
    drawn = two(side("reference", **many), side("board", **worse), DRAW).pairs[0].drawings
    assert len(drawn) == MAX_DRAWN and {d.why for d in drawn} == {"a final output that differs"}


def test_a_picture_is_drawn_as_a_picture():
    spec = TensorSpec("image", "uint8", (1, 3, 16, 500))
    value = RNG.integers(0, 256, spec.shape).astype(np.uint8)
    (drawn,) = draw_inputs(PreparedInputs((PreparedInput(spec, value.tobytes(), "random"),)))
    assert drawn.picture is not None and drawn.picture.shape == (6, 167, 3) and "3 x 3" in drawn.shown
    low, high = int(value[..., ::3, ::3].min()), int(value[..., ::3, ::3].max())
    wanted = np.rint((value[0, :, ::3, ::3].transpose(1, 2, 0).astype(float) - low) / (high - low) * 255)
    assert np.abs(drawn.picture - wanted).max() <= 1
    tensor = TensorSpec("tokens", "int64", (1, 4))
    (drawn,) = draw_inputs(PreparedInputs((PreparedInput(tensor, np.arange(4).tobytes(), "random"),)))
    assert drawn.picture is None and drawn.values is not None and int(drawn.values.a.sum()) == 4


def test_plots_are_files_that_open_and_stay_in_their_folder(tmp_path):
    image = pytest.importorskip("PIL.Image")
    names = ["../../evil", "<script>", "con", "x" * 10_000, "a\nb", "é\udc80"]
    a = side("reference", **{n: [[1.0, 2.0], [3.0, 4.0]] for n in names})
    b = side("board", **{n: [[1.0, 2.0], [3.5, 4.0]] for n in names})
    write_plots(two(a, b, DRAW), str(tmp_path / "plots"))
    assert [p.name for p in tmp_path.iterdir()] == ["plots"]
    files = sorted(p for p in (tmp_path / "plots").iterdir() if p.name != "plots.txt")
    assert (tmp_path / "plots" / "plots.txt").read_text().split("\n")[:-1] == [
        p.with_suffix(s).name for p in files[::2] for s in (".svg", ".png")
    ]
    assert [p.suffix for p in files] == [".png", ".svg"] * len(names) and all(p.is_file() for p in files)
    for path in files:
        if path.suffix == ".png":
            with image.open(path) as opened:
                assert min(opened.size) > 200
        else:
            assert "<script" not in path.read_text(encoding="utf-8")
    assert not [p for p in files if p.name.startswith(".")]


def test_names_of_any_bytes_are_text_where_they_are_drawn(tmp_path):
    a, b = (side(name, **{n: [1.0, last] for n in NASTY}) for name, last in (("reference", 2.0), ("board", 2.5)))
    formats.page("html").write(two(a, b, DRAW), str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = Page(text)
    assert sum(tag == "script" for tag, _ in page.tags) == 1 and text.count("x" * 10_000) < 10
    assert "\x1b" not in text and "\u202e" not in text and "new\nline" not in text
    drawn = [at for tag, at in page.tags if tag == "details" and at.get("class") == "drawn"]
    assert len(drawn) == len(NASTY) == len({at["id"] for at in drawn})


def test_pixels_are_a_png():
    image = pytest.importorskip("PIL.Image")
    picture = RNG.integers(0, 256, (5, 9, 3)).astype(np.uint8)
    assert np.array_equal(np.asarray(image.open(io.BytesIO(png.pixels(picture)))), picture)


def test_the_terminal_shows_where_the_blamed_tensor_differs():
    report = three(board=wrong_at("n2"))
    plain, blocks = (terminal.render(report, [], TextView(wrapped=True, blocks=b)) for b in (False, True))
    for text, mark in ((plain, "#"), (blocks, "█")):
        assert "n2, reference ~ board: 1 of 40 elements differ" in text and f"+1 LSB {mark}" in text
        assert f"  |   {mark}   |" in text and plain.isascii()
    for view in (TextView(), TextView(wrapped=True, detail="quiet")):  # a pipe has nothing to search in it
        assert "  |   " not in terminal.render(report, [], view)
    assert "elements differ" not in terminal.render(three(), [], TextView(wrapped=True))


def test_a_row_leads_to_the_drawing_of_the_same_bytes_in_another_pair():
    report = three(board=wrong_at("n2"), options=DRAW)
    of_pairs = anchors(report.pairs)
    assert of_pairs[1]["n2"] == of_pairs[2]["n2"] == "d1-0" and of_pairs[1]["n1"] == of_pairs[0]["n1"]
    report.pairs[1].frame = 1
    assert "n2" not in anchors(report.pairs)[2]
    report.pairs[1].frame, report.pairs[1].board, report.pairs[2].board = 0, "one", "two"
    assert "n2" not in anchors(report.pairs)[2]


def test_plots_are_written_by_a_comparison_and_refused_before_it(tmp_path, capsys):
    pytest.importorskip("PIL.Image")
    arrays = {"y": np.arange(12.0).reshape(3, 4)}
    for name, more in (("a", 0.0), ("b", 0.5)):
        np.savez(tmp_path / f"{name}.npz", y=arrays["y"] + more)
    words = ["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz"), "--plots"]
    assert main([*words, str(tmp_path / "plots")]) == 1
    names = ["000-A-B-y.png", "000-A-B-y.svg", "plots.txt"]
    assert [p.name for p in sorted((tmp_path / "plots").iterdir())] == names
    (tmp_path / "plots" / "mine.png").write_bytes(b"")
    np.savez(tmp_path / "b.npz", z=arrays["y"])
    assert main([*words, str(tmp_path / "plots")]) == 3
    assert [p.name for p in sorted((tmp_path / "plots").iterdir())] == [
        "mine.png",
        "plots.txt",
    ]  # those of before are gone
    np.savez(tmp_path / "b.npz", y=arrays["y"] + 0.5)
    assert main([*words, str(tmp_path / "plots")]) == 1
    assert "12 of 12 elements differ" in (tmp_path / "plots" / "000-A-B-y.svg").read_text()
    capsys.readouterr()
    assert main([*words, str(tmp_path / "a.npz")]) == 2
    assert "--plots: wanted a folder, got" in capsys.readouterr().err


def test_the_page_draws_each_tensor_and_stays_small(tmp_path):
    noisy = {f"t{n:03d}": RNG.normal(size=(4, 64, 64)) for n in range(80)}
    other = {name: v + RNG.normal(size=v.shape) for name, v in noisy.items()}
    report = two(side("reference", **noisy), side("board", **other), DRAW)
    formats.page("html").write(report, str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert len(text) < 3_000_000 and text.count('class="drawn"') == MAX_DRAWN
    for at, drawing in enumerate(report.pairs[0].drawings):
        assert f'id="d0-{at}"' in text and f'href="#d0-{at}"' in text and drawing.name in text
