"""Estimates the bytes and seconds of a run over a link before any board is touched: the run is rehearsed on this host,
in frames of the same size as the link's, and its bytes are counted."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

from qverify_agents.binaries import MACHINES
from qverify_agents.host_system import explain_if_not_linux
from qverify_agents.link_estimates import COMMON, Rate, estimate_rate

from qverify.errors import UsageError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.session.models import Models, open_models
from qverify.sides.board import Board
from qverify.tensors.prepared import PreparedInputs

ASSUMED_ARCHITECTURE = "aarch64"  # that of most boards


@dataclass(frozen=True, slots=True)
class PlanRow:
    """The estimate for one link. Bytes are the sum of both directions. Seconds are those of the link alone, without the
    board's computing time. The spot check pulls the tensor that --spot-seed 0 chooses.

    Attributes:
        link: name of the link.
        assumed: the assumed speed, and the assumed architecture if the address states none.
        architecture: that of the agent which is counted, "" if no agent is pushed.
        first_bytes, first_s: a run that pushes the agent and the model.
        cached_bytes, cached_s: a run where both are on the board already.
        everything_bytes, everything_s: a run where both are on the board already, and every tensor is pulled.
    """

    link: str
    assumed: str
    architecture: str
    agent_bytes: int
    first_bytes: int
    first_s: float
    cached_bytes: int
    cached_s: float
    everything_bytes: int
    everything_s: float


def plan(
    paths: list[str],
    boards: list[str],
    inputs: InputRequest | None = None,
    machine: str | None = None,
    bytes_per_s: float | None = None,
) -> list[PlanRow]:
    """Returns one row per link. boards: addresses; [] for the common links. machine: name of the machine whose agent is
    counted; if None, that of the address, or else ASSUMED_ARCHITECTURE, which the row then names. bytes_per_s: speed to
    use instead of the assumed one. Raises UsageError for an unknown machine, and on a host other than Linux, where no
    run can be rehearsed."""
    if why := explain_if_not_linux(
        "plan", "the run is rehearsed with the board's program, which runs on Linux", "a Linux host"
    ):
        raise UsageError(why)
    if machine is not None and machine.lower() not in MACHINES:
        raise UsageError(f"--arch {machine}: known machines are {', '.join(sorted(MACHINES))}")
    models = open_models(paths)
    prepared = prepared_inputs(models.graph, inputs or InputRequest())
    rates = [estimate_rate(b) for b in boards] or list(COMMON)
    shapes = {r.shape: _rehearse(models, prepared, r.shape) for r in rates}
    return [_row(r, shapes[r.shape], machine, bytes_per_s) for r in rates]


@dataclass(frozen=True, slots=True)
class CountedTraffic:
    """The traffic of each kind of run, as (bytes, requests)."""

    first: tuple[int, int]
    cached: tuple[int, int]
    everything: tuple[int, int]


def _rehearse(models: Models, prepared: PreparedInputs, shape: str) -> CountedTraffic:
    """Runs the model on this host once for each kind of run. shape: options of the address that shape the link."""
    with tempfile.TemporaryDirectory(prefix="qverify-plan-") as store:
        return CountedTraffic(
            *(_run(models, prepared, f"local?{shape}", store, every) for every in (False, False, True))
        )


def _run(models: Models, prepared: PreparedInputs, address: str, store: str, every: bool) -> tuple[int, int]:
    """Returns the (bytes, requests) of one run. store: folder in which agent and model stay. every: pull every
    tensor."""
    board = Board(address, models.binary, models.graph, options={"store": store}, spot_seed=0, islands=models.islands)
    try:
        link = board.run(prepared, pull="all" if every else "differ").link
    finally:
        board.close()
    return link["bytes_sent"] + link["bytes_received"], link["requests"]


def _row(rate: Rate, counted: CountedTraffic, machine: str | None, bytes_per_s: float | None) -> PlanRow:
    stated = MACHINES[machine.lower()] if machine is not None else rate.architecture
    architecture = stated or ASSUMED_ARCHITECTURE
    speed, agent = bytes_per_s or rate.bytes_per_s, rate.agent_bytes(architecture)
    assumed = rate.assumed if bytes_per_s is None else f"{bytes_per_s:g} bytes/s"

    def seconds(run: tuple[int, int], more: int = 0) -> float:
        return rate.login_s + (run[0] + more) / speed + run[1] * rate.round_trip_s

    return PlanRow(
        rate.name,
        assumed if stated or not rate.pushes_agent else f"{assumed}, {ASSUMED_ARCHITECTURE}",
        architecture if rate.pushes_agent else "",
        agent,
        counted.first[0] + agent,
        seconds(counted.first, agent),
        counted.cached[0],
        seconds(counted.cached),
        counted.everything[0],
        seconds(counted.everything),
    )
