"""The host's sides with results that are read from the disk. The sessions that compute single units again are opened only when
they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qverify.errors import InternalError
from qverify.session.host_sides import HostSides, SideResults, Watch
from qverify.session.models import Models
from qverify.tensors.prepared import PreparedInputs

from qverify_farm.work.engine_results import StoredEngines
from qverify_farm.work.host_results import HostResult


class StoredSides(HostSides):
    """The host's sides of one job."""

    results_are_known = True

    def __init__(self, models: Models, results: Mapping[str, HostResult], engines: StoredEngines | None = None):
        """results: the stored results, by the SHA-256 of the prepared inputs. engines: the engines that are further sides."""
        super().__init__(models, engines=engines)
        self._results = results

    def run(self, prepared: PreparedInputs, run_sim: bool, watch: Watch | None = None) -> SideResults:
        """Returns the stored results for these inputs. Raises InternalError if there are none."""
        stored = self._results.get(prepared.sha256)
        if stored is None:
            raise InternalError("these inputs were prepared to other bytes than before; they changed meanwhile")
        results = stored.fresh()
        for side in results.recordings:
            results.run_unit[side] = self._run_unit_later(side, run_sim)
        if self._engines is not None:
            results.recordings |= self._engines.run(prepared, watch)
        return results

    def _run_unit_later(self, side: str, run_sim: bool) -> Any:
        def run_unit(*arguments: Any) -> Any:
            return self.run_units(run_sim)[side](*arguments)

        return run_unit
