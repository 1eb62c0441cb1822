"""Makes the request of `qverify soak`."""

from __future__ import annotations

from qverify.compare.gate_text import parse_gates
from qverify.compare.options import Options
from qverify.errors import OptionsError
from qverify.options.given import Given
from qverify.session.other_jobs.soak import SoakRequest
from qverify.session.requests.inputs import read_inputs
from qverify.session.requests.sides import read_engine, read_link, read_runner


def soak_request(given: Given) -> SoakRequest:
    """Returns the request. Raises OptionsError for gates that nothing is compared with."""
    engine, inputs = read_engine(given), read_inputs(given)
    deadline_s, reach = read_link(given)
    runner = read_runner(given, reach)
    if given["path"] == "":
        raise OptionsError("an empty --log (an unset shell variable?)")
    if given["gates"] and not engine.names:
        raise OptionsError("--gate judges what --reference-engine gives; other runs are compared bit for bit")
    gates = parse_gates(given["gates"])
    if "task_gates" in gates or "role_gates" in gates:
        raise OptionsError("--gate: gates of roles and of the task are of the main job")
    options = Options(digits_given=bool({"digits", "rule"} & gates.keys()), named=frozenset(gates), **gates)
    paths, seconds, every_s = [p for p in given["models"].split(",") if p], given["seconds"], given["every_s"]
    return SoakRequest(paths, given["board"], seconds, inputs, every_s, deadline_s, reach, runner, engine, options)
