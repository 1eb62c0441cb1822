"""A board that is not there is found before the sides of this host have computed anything for it."""

import threading

import pytest
from qverify.session.host_sides import HostSides
from qverify.session.job import Job, verify
from qverify.session.request import Request
from qverify_agents.errors import BadAddress

NOWHERE = "serial:///no/such/port"


def test_an_unreachable_board_is_told_while_the_reference_computes(digits, monkeypatch):
    """The reference waits here for the news, which so cannot come after it."""
    told, said = threading.Event(), list[str]()
    run = HostSides.run

    def waits(self, *words):
        assert told.wait(60), "the board was not tried before the host's sides had ended"
        return run(self, *words)

    def tell(why):
        said.append(why)
        told.set()

    monkeypatch.setattr(HostSides, "run", waits)
    request = Request([str(digits / "digits_quant.onnx")], NOWHERE)
    job = Job(request)
    job.on_unreached = tell
    outcome = verify(request, job=job)
    assert said == [outcome.unreached] and outcome.unreached
    verdicts = {(p.a, p.b): p.verdict for p in outcome.report.pairs}
    assert verdicts["reference", "simulator"] == "PASSED" and verdicts["simulator", "board"] == "INCONCLUSIVE"


def test_a_wrong_address_ends_the_run_before_the_reference_has_computed(digits, monkeypatch):
    computed = list[str]()

    def run(self, prepared, simulator, watch=None):
        for _ in range(100):
            threading.Event().wait(0.05)
            watch("reference", 0, 1)
        computed.append("reference")

    def refuse(*_):
        raise BadAddress("no such scheme")

    monkeypatch.setattr(HostSides, "run", run)
    monkeypatch.setattr("qverify.session.job.connect_board", refuse)
    with pytest.raises(BadAddress, match="no such scheme"):
        verify(Request([str(digits / "digits_quant.onnx")], NOWHERE))
    assert computed == []
