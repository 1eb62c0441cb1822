"""Registries that are folders: every page is found by listing, and one that lacks something is named when it is loaded."""

from __future__ import annotations

import pytest
from qverify import ops, profiles
from qverify.compare import metrics
from qverify.inputs import hypotheses as input_hypotheses
from qverify.pages import load_page, load_pages, page_names
from qverify.renderers import formats
from qverify.triage import hypotheses as fault_hypotheses

REGISTRIES = {  # package to what each of its pages defines
    ops: ("WORDS", "simulate"),
    metrics: ("NAME", "Measure"),
    profiles: ("WANTED", "CHECKED", "recognised", "read"),
    formats: ("SUFFIX", "write"),
    input_hypotheses: ("NAME", "__doc__", "variants"),
    fault_hypotheses: ("NAME", "__doc__", "variants"),
}


@pytest.mark.parametrize("package", REGISTRIES, ids=lambda package: package.__name__)
def test_every_page_defines_what_its_registry_asks_for(package):
    names, pages = page_names(package.__name__), load_pages(package.__name__, REGISTRIES[package])
    assert names == sorted(names) and [page.__name__.rpartition(".")[2] for page in pages] == names != []


@pytest.mark.parametrize("package", REGISTRIES, ids=lambda package: package.__name__)
def test_a_page_that_lacks_something_is_named_with_it(package, monkeypatch, tmp_path):
    required = REGISTRIES[package]
    (tmp_path / "half_done.py").write_text(f'"""A page."""\n{required[0]} = "x"\n')
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    folder = package.__name__.removeprefix("qverify.").replace(".", "/")
    with pytest.raises(ImportError) as refused:
        load_page(package.__name__, "half_done", required)
    lacking = ", ".join(name for name in required[1:] if name != "__doc__")
    assert str(refused.value) == f"{folder}/half_done.py: a page of this folder must define {lacking}"
    assert "half_done" in page_names(package.__name__)
