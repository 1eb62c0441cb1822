"""python -m qverify_farm.work.host_step: computes the results of the reference and the simulator for the frames of tasks, and
stores them (host_results.py). It is a separate process, so that a crash does not end the worker."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

from qverify.errors import QVerifyError
from qverify.inputs.sources import prepared_inputs
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.session.runner import open_with_board_model

from qverify_farm.work.child import serve
from qverify_farm.work.host_results import HostResults
from qverify_farm.work.job_request import JobRequest, make_job_request
from qverify_farm.work.job_task import JobTask

MAX_OPEN_MODELS = 4


class HostStep:
    """Computes results that are not stored yet. Models stay open for later requests."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, bool], tuple[Models, HostSides]] = OrderedDict()
        self._stores: dict[str, HostResults] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Computes the missing results of a task. Returns {"computed": N}, where N is their number, or {"error": TEXT} if they
        cannot be computed. Mistakes in models and inputs are not reported here, since the worker finds them again."""
        try:
            job_request = make_job_request(JobTask.from_json(request["task"]), Path(request["folder"]))
            store = self._stores.setdefault(request["results"], HostResults(Path(request["results"]), request["limit"]))
            return {"computed": self._compute(job_request, store)}
        except QVerifyError:
            return {"computed": 0}
        except MemoryError:
            return {"error": "the reference and the simulator need more memory than this host has"}
        except Exception as error:
            return {"error": f"internal error: {type(error).__name__}: {error}"[:300]}

    def _compute(self, job_request: JobRequest, store: HostResults) -> int:
        models, sides = self._open_models(job_request)
        computed = 0
        for inputs in job_request.frame_inputs():
            try:
                prepared = prepared_inputs(models.graph, inputs)
            except QVerifyError:
                continue
            key = job_request.result_key(prepared.sha256)
            if store.path(key).is_dir():
                continue
            with store.lock(key):
                if not store.path(key).is_dir():
                    store.put(key, sides.run(prepared, job_request.sides.simulator))
                    computed += 1
        return computed

    def _open_models(self, job_request: JobRequest) -> tuple[Models, HostSides]:
        key = job_request.models_key, job_request.sides.reference
        if key not in self._open:
            models, _ = open_with_board_model(job_request.request, job_request.sides)
            job_request.check_model_files()
            self._open[key] = models, HostSides(models, job_request.sides.reference)
            while len(self._open) > MAX_OPEN_MODELS:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]


if __name__ == "__main__":
    serve(HostStep().answer)
