"""The host's sides whose results are on the disk; what computes a single unit again is opened when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qverify.errors import InternalError
from qverify.session.host_sides import HostSides, SideResults, Watch
from qverify.session.models import Models
from qverify.tensors.prepared import PreparedInputs

from qverify_farm.work.host_results import HostResult


class StoredSides(HostSides):
    """results: by the SHA-256 of the prepared inputs. For one job."""

    at_hand = True

    def __init__(self, models: Models, results: Mapping[str, HostResult]):
        super().__init__(models)
        self._results = results

    def run(self, prepared: PreparedInputs, run_sim: bool, watch: Watch | None = None) -> SideResults:
        """Returns what is stored for these inputs. InternalError where nothing is."""
        found = self._results.get(prepared.sha256)
        if found is None:
            raise InternalError("these inputs were prepared to other bytes than before; they changed meanwhile")
        ran = found.fresh()
        for side in ran.recordings:
            ran.run_unit[side] = self._later(side, run_sim)
        return ran

    def _later(self, side: str, run_sim: bool) -> Any:
        def run_unit(*arguments: Any) -> Any:
            return self.run_units(run_sim)[side](*arguments)

        return run_unit
