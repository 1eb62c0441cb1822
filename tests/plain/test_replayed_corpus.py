"""scripts/replay: the program makes of the recorded models and captures what is recorded of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from replaying.corpus import CORPUS, unpack  # noqa: E402
from replaying.replay import (  # noqa: E402
    DOCUMENTS,
    EXPECTED,
    changes,
    is_of_other_processors,
    summary_line,
    text_of,
    without_volatile,
)

LINES = EXPECTED.read_text().splitlines()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    unpack(CORPUS, folder)
    unpack(DOCUMENTS, folder / "documents")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split()[0])
def test_it_is_as_recorded(line: str, corpus: Path):
    """Where this fails, `scripts/replay NAME` shows what has changed; where that is wanted, `scripts/replay --record`."""
    name = line.split()[0]
    (path,) = [p for p in corpus.glob("[mc]*/*") if p.stem == name]
    text = text_of(path)
    recorded = json.loads((corpus / "documents" / f"{name}.json").read_text())
    changed = list(changes(recorded, json.loads(text)))
    if changed and is_of_other_processors(name, recorded, json.loads(text)):
        return
    assert changed == []
    assert summary_line(name, text) == line


def test_the_corpus_holds_models_of_every_op_and_captures_of_right_and_wrong_boards(corpus: Path):
    names = {line.split()[0] for line in LINES}
    assert {p.stem for p in corpus.glob("[mc]*/*")} == names == {p.stem for p in (corpus / "documents").glob("*.json")}
    stems = {p.stem for p in (ROOT / "tests" / "ops" / "cases").glob("*.py")} - {"__init__"}
    assert len(stems & names) >= 60
    verdicts = [line.split()[2] for line in LINES if line.split()[2] in ("PASSED", "FAILED")]
    assert len(verdicts) == 40 and 5 <= verdicts.count("PASSED") <= 10


def test_a_change_is_told_with_its_place_and_what_depends_on_the_run_is_none():
    before = {"verdict": "PASSED", "date": "1", "pairs": [{"max": 1, "timings": {"a": 1}}]}
    after = {"verdict": "FAILED", "date": "2", "pairs": [{"max": 2, "timings": {"a": 3}}]}
    assert list(changes(without_volatile(before), without_volatile(after))) == [
        "pairs[0].max: 1 -> 2",
        'verdict: "PASSED" -> "FAILED"',
    ]


def test_an_unknown_name_is_refused():
    done = subprocess.run([ROOT / "scripts" / "replay", "no-such"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "nothing in the corpus is called no-such" in done.stderr
