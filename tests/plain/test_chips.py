"""`qverify chips`: a page for every maker, found by chip, tool or file; its options are those of the program."""

from pathlib import Path

import pytest
from qverify import profiles
from qverify.chips import ROWS, find_page, read_pages
from qverify.cli.main import main
from qverify.compare.vendor_criteria import CRITERIA
from qverify.engines import names as engine_names
from qverify.vendor_names import OTHER_NAMES, known_spelling


def test_every_maker_has_a_page_and_every_page_its_rows():
    assert [page.name for page in read_pages()] == sorted(OTHER_NAMES)
    for page in read_pages():
        assert tuple(page.rows) == ROWS and all(page.rows.values())
        assert "## What FAILED means" in page.text


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("rk3588", "rockchip"),
        ("RK3588S", "rockchip"),
        ("rknn", "rockchip"),
        (".hef", "hailo"),
        ("TDA4", "ti"),
        ("RDK X5", "horizon"),
        ("esp32-s3", "espressif"),
        ("STM32N6", "st"),
        ("i.MX93", "nxp"),
        ("nrf5340", "microcontrollers"),
        ("ssd202", "sigmastar"),
        ("cv1812", "sophgo"),
        ("qnn", "qualcomm"),
    ],
)
def test_a_page_is_found_by_what_a_user_knows(word, name):
    assert find_page(word).name == name


def test_an_unknown_chip_is_refused_in_one_line(capsys):
    assert main(["chips", "rockchp"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "did you mean rockchip?" in error


@pytest.mark.parametrize("word", ("nc1hwc2", "NHWC"))
def test_an_order_of_axes_leads_to_where_layouts_are_explained(word, capsys):
    assert main(["chips", word]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "an order of axes" in error and "--layout" in error and "dump.toml" in error


def test_profiles_criteria_and_simulators_of_the_pages_exist():
    for page in read_pages():
        if known_spelling(page.name, CRITERIA) in CRITERIA:
            assert known_spelling(page.name, CRITERIA) in page.rows["criteria"].partition(":")[0] + ":"
        if page.rows["simulator"].startswith("`"):
            assert page.rows["simulator"].partition("`")[2].partition("`")[0].partition(",")[0] in {
                *engine_names(),
                "onnxruntime",
            }
    assert {known_spelling(name, profiles.names()) for name in ("rknn", "qnn", "st", "ti", "pulsar2")} <= set(
        profiles.names()
    )


def test_the_overview_names_every_maker(capsys):
    assert main(["chips"]) == 0
    printed = capsys.readouterr().out
    assert all(page.name in printed for page in read_pages())
    assert main(["chips", "rk3588"]) == 0
    assert capsys.readouterr().out.startswith("# Rockchip\n")


def test_the_readme_has_the_table():
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    for page in read_pages():
        assert f"| [{page.title}](verifier/qverify/chips/{page.name}.md) | {page.rows['chips']} |" in readme
        assert page.rows["tried"] in readme


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("qnn-net-run", "Qualcomm"),
        ("encodings", "Qualcomm"),
        (".info", "Espressif"),
        ("tidl_trace", "Texas Instruments"),
    ],
)
def test_tools_and_kinds_of_files_lead_to_the_page(word, page, capsys):
    assert main(["chips", word]) == 0
    assert capsys.readouterr().out.startswith(f"# {page}\n")
