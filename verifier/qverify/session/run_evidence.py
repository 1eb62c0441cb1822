"""Provides the inputs and results of one run after its verdict: any tensor as the board or the host computed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from qverify.compare.values import Values
from qverify.session.host_sides import SideResults
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Array, Recording

Pull = Callable[[list[str]], Any]


@dataclass(slots=True)
class RunEvidence:
    """The inputs and results of one run. pull: fetches tensors from the board; None once its job is closed, or without
    a board."""

    prepared: PreparedInputs
    results: SideResults
    pull: Pull | None

    def board_value(self, name: str) -> tuple[Array | None, str]:
        """Returns an input of the network, or an output of a node as the board computed it, and "". Returns None and ""
        if the board does not offer the tensor, None and the reason if it could not be pulled."""
        for item in self.prepared.inputs:
            if item.spec.name == name:
                return np.asarray(item.array()), ""
        values = board_values(self.results.recordings, self.pull)
        if values is None or (values.get_local(name) is None and (self.pull is None or values.digest(name) is None)):
            return None, ""
        value = values.get(name)
        return (None, values.failed[name]) if value is None else (np.asarray(value), "")

    def host_value(self, name: str) -> Array | None:
        """Returns the simulator's value of a tensor; the reference's if the simulator has none; None if neither has."""
        for side in (self.results.recordings.get("simulator"), self.results.recordings.get("reference")):
            if side is not None and name in side.tensors:
                return np.asarray(side.tensors[name])
        return None


def board_values(recordings: Mapping[str, Recording], pull: Pull | None, side: str = "board") -> Values | None:
    """Returns access to the board's tensors, each taken from what it sent, from another side's tensor with the same
    digest, or by a pull, in this order; None if no board took part. recordings: by label, as they were judged. side: the
    side whose tensors are wanted, if it is not the board."""
    board = next((r for r in recordings.values() if r.side == side), None)
    if board is None:
        return None
    values = Values(board, pull)
    values.peers = [r for r in recordings.values() if r is not board]
    return values
