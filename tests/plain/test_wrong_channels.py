"""`compare` of two dumps without a model names the channels to which what does not match is confined."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

VALUES = np.random.default_rng(3).standard_normal((1, 33, 6, 6)).astype(np.float32)


def find(tmp_path: Path, given: np.ndarray, *words: str) -> list[dict[str, object]]:
    np.savez(tmp_path / "a.npz", x=VALUES[:, :3], conv=VALUES)
    np.savez(tmp_path / "b.npz", x=VALUES[:, :3], conv=given)
    assert (
        main(["compare", *(str(tmp_path / f"{n}.npz") for n in "ab"), "--json", str(tmp_path / "r.json"), *words]) == 1
    )
    return json.loads((tmp_path / "r.json").read_text())["findings"]


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_channels_of_what_does_not_match(tmp_path: Path, noise: float, capsys: pytest.CaptureFixture[str]) -> None:
    given = VALUES + np.float32(noise)
    given[:, [4, 15, 26]] += np.float32(0.5)
    (finding,) = find(tmp_path, given)
    assert (finding["kind"], finding["tensor"]) == ("channels", "conv")
    assert "found: conv: what does not match is all in 3 of 33 channels: 4, 15, 26" in capsys.readouterr().out


def test_errors_in_every_channel_or_in_one_element_are_of_no_channel(tmp_path: Path) -> None:
    assert find(tmp_path, VALUES + np.float32(0.25)) == []
    given = VALUES.copy()
    given[0, 7, 2, 2] = np.nan
    assert find(tmp_path, given) == []


def test_channels_of_a_dump_that_states_nhwc_are_its_last_axis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last ones were not written: rows are no channels, though there are as few."""
    values = np.abs(np.random.default_rng(4).standard_normal((1, 6, 6, 40))).astype(np.float32)
    for side, given in (("a", values), ("b", np.where(np.arange(40) < 32, values, np.float32(0)))):
        (tmp_path / side).mkdir()
        given.tofile(tmp_path / side / "y.bin")
        (tmp_path / side / "dump.toml").write_text(
            '[[tensor]]\nfile = "y.bin"\nname = "y"\nshape = [1, 6, 6, 40]\ndtype = "float32"\nlayout = "NHWC"\n'
        )
    assert main(["compare", str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    printed = capsys.readouterr().out
    assert "found: y: what does not match is all in 8 of 40 channels: 32 to 39, all of 0 in B" in printed
    assert " of 6: max" not in printed


def test_anchors_are_no_channels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = np.random.default_rng(5).standard_normal((1, 400, 1)).astype(np.float32)
    given = values.copy()
    given[0, [7, 9], 0] += 1
    np.savez(tmp_path / "a.npz", obj=values)
    np.savez(tmp_path / "b.npz", obj=given)
    assert main(["compare", str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]) == 1
    assert "channels 7" not in capsys.readouterr().out
