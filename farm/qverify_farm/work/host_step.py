"""python -m qverify_farm.work.host_step: computes what the reference and the simulator give for the frames of tasks, and
stores it (host_results.py). A process of its own: what ends it ends no worker."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qverify.errors import QVerifyError
from qverify.inputs.sources import prepared_inputs
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.session.runner import open_with_board_model, runner_for
from qverify_agents.file_lock import LOCK_FLAGS, lock_file

from qverify_farm.work.child import serve
from qverify_farm.work.host_results import HostResults, result_key
from qverify_farm.work.job_request import JobRequest, make_job_request
from qverify_farm.work.job_task import JobTask

MOST_OPEN = 4


class HostStep:
    """Computes what is not stored yet. Models stay open for the next request."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[Models, HostSides]] = OrderedDict()
        self._stores: dict[str, HostResults] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Returns {"computed": N}, how many results were missing; {"error": TEXT} where none can be computed. Mistakes in
        models and inputs are left to who runs the job, who meets them again."""
        try:
            asked = make_job_request(JobTask.from_json(request["task"]), Path(request["folder"]))
            store = self._stores.setdefault(request["results"], HostResults(Path(request["results"]), request["limit"]))
            return {"computed": self._compute(asked, store)}
        except QVerifyError:
            return {"computed": 0}
        except MemoryError:
            return {"error": "the reference and the simulator need more memory than this host has"}
        except Exception as error:
            return {"error": f"internal error: {type(error).__name__}: {error}"[:300]}

    def _compute(self, asked: JobRequest, store: HostResults) -> int:
        models, sides = self._opened(asked)
        computed, run_sim = 0, asked.request.run_sim
        for inputs in asked.frame_inputs():
            try:
                prepared = prepared_inputs(models.graph, inputs)
            except QVerifyError:
                continue
            key = result_key(asked.models_key, prepared.sha256, run_sim)
            if store.path(key).is_dir():
                continue
            with _alone(store.folder / f"{key[:2]}.lock"):
                if not store.path(key).is_dir():
                    store.put(key, sides.run(prepared, run_sim))
                    computed += 1
        return computed

    def _opened(self, asked: JobRequest) -> tuple[Models, HostSides]:
        if asked.models_key not in self._open:
            request = asked.request
            models, _ = open_with_board_model(request, runner_for(request.board, request.runner))
            self._open[asked.models_key] = models, HostSides(models)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(asked.models_key)
        return self._open[asked.models_key]


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Waits until no other process of this host computes the same."""
    descriptor = os.open(path, LOCK_FLAGS, 0o600)
    try:
        lock_file(descriptor, wait=True)
        yield
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    serve(HostStep().answer)
