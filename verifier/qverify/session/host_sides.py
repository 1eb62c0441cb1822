"""Runs the sides of this host (reference and simulator), and defines the results of all sides for one set of inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qverify.compare.kernel_sets import OF_ENGINES
from qverify.session.engine_sides import EngineSides
from qverify.session.models import Models
from qverify.tensors.free_memory import return_free_memory
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

if TYPE_CHECKING:
    from qverify.sides.reference_variants.interpreter_files import ReferenceVariant

Watch = Callable[[str, int, int], None]  # receives progress: name of the step, how much is done, and of how much


@dataclass(slots=True)
class SideResults:
    """The results of all sides for one set of inputs.

    Attributes:
        recordings: the recording of each side, by the side's label.
        run_unit: the function of each side that computes one unit again for forced verdicts, by the side's label.
        plain: the comparison of the original ONNX's outputs with the reference's, one row per output.
        canary: the result of the check of this host's onnxruntime, {} if the reference did not run on it.
        kernel_sets: as kernel_sets() returns them.
    """

    recordings: dict[str, Recording] = field(default_factory=dict)
    run_unit: dict[str, Any] = field(default_factory=dict)
    plain: list[dict[str, Any]] = field(default_factory=list)
    canary: dict[str, Any] = field(default_factory=dict)
    kernel_sets: dict[str, Any] = field(default_factory=dict)


class HostSides:
    """The reference (if -m contains a quantized ONNX, and unless `run_reference` is False), the simulator and the engines
    that are further sides, each opened at most once.

    results_are_known: the results need not be computed, so that nothing is gained by running the sides while the board
    runs. runs_original: whether the unchanged original ONNX runs beside the reference."""

    results_are_known = False
    runs_original = True

    def __init__(self, models: Models, run_reference: bool = True, engines: EngineSides | None = None):
        self._models, self._canary = models, dict[str, Any]()
        self._run_reference, self._engines = run_reference, engines
        self._reference: Any = None
        self._simulator: Any = None

    def run(self, prepared: PreparedInputs, run_sim: bool, watch: Watch | None = None) -> SideResults:
        """Runs the host's sides on the inputs and returns their results. run_sim: whether to run the simulator."""
        ran = SideResults()
        if self._models.engine is not None:
            ran.recordings["reference"] = self._models.engine.run(prepared)
            return ran
        has_reference = self._models.compiled is not None or self._models.alone is not None
        if has_reference and self._run_reference:
            reference = self.reference()
            ran.canary = self._canary
            original = self._run_original(reference, prepared)  # first, so that its session is freed before more memory
            ran.recordings["reference"] = reference.run(prepared)
            self._models.release()
            ran.run_unit["reference"] = reference.run_unit
            ran.kernel_sets = self.kernel_sets()
            ran.plain = reference.compare_original(prepared, ran.recordings["reference"].tensors, original)
            reference.name_optimizer(prepared, original, ran.plain)
        if run_sim and not self._models.no_simulator:
            from qverify.sides.simulator import Simulator

            self._simulator = self._simulator or Simulator(self._models.graph, self._models.islands)
            peer = ran.recordings.get("reference")
            ran.recordings["simulator"] = self._simulator.run(
                prepared, progress=progress_of_step(watch, "simulator"), peer=peer
            )
            ran.run_unit["simulator"] = self._simulator.run_unit
            self._models.release()
        if self._engines is not None:
            ran.recordings |= self._engines.run(prepared, watch)
        return ran

    def _run_original(self, reference: Any, prepared: PreparedInputs) -> Any:
        """Returns what the reference's run_original() returns, {} if it is left out."""
        if not self.runs_original:
            return {}
        original = reference.run_original(prepared)
        return_free_memory()
        return original

    def close(self) -> None:
        """Ends the connections of the engines."""
        if self._engines is not None:
            self._engines.close()

    def variants(self, prepared: PreparedInputs) -> list[ReferenceVariant]:
        """Returns the variants of the reference (Reference.variants), which must exist."""
        return list(self.reference().variants(prepared))

    def run_units(self, run_sim: bool) -> dict[str, Any]:
        """Returns the function of each side that computes one unit, by the side's label. The sides are not run."""
        from qverify.sides.simulator import Simulator

        functions: dict[str, Any] = {}
        if self._models.compiled is not None or self._models.alone is not None:
            functions["reference"] = self.reference().run_unit
        if run_sim and not self._models.no_simulator:
            self._simulator = self._simulator or Simulator(self._models.graph, self._models.islands)
            functions["simulator"] = self._simulator.run_unit
        return functions

    def kernel_sets(self) -> dict[str, Any]:
        """Returns functions that compute one unit of a .tflite with other kernels than the reference's, by their names: those of
        LiteRT, and of a file that is not converted those of engines whose arithmetic is shipped; {} of any other model."""
        if self._models.alone is None or not self._run_reference:
            return {}
        found = dict(self.reference().kernel_sets)
        if self._models.graph.is_of_operators:
            from qverify.session.engine_kernels import EngineKernels

            alone = self._models.alone
            found |= {name: EngineKernels(alone, key).run_unit for name, key in OF_ENGINES.items()}
        return found

    @property
    def distrusted(self) -> list[str]:
        """The nodes of the opened reference that onnxruntime on this host computes wrongly, according to the canary."""
        return list(self._canary.get("distrusted", ()))

    def reference(self) -> Any:
        """Returns the opened reference, which must exist: the user's engine, LiteRT for a .tflite without an ONNX, or
        onnxruntime."""
        if self._models.engine is not None:
            return self._models.engine
        if self._reference is None and self._models.alone is not None:
            from qverify.sides.litert_reference import LiteRtReference

            alone = self._models.alone
            self._reference = LiteRtReference(
                *(alone.data, alone.converted, self._models.graph, alone.kernels, alone.shared, alone.unstable),
                self._models.islands,
            )
        if self._reference is not None:
            return self._reference
        from qverify.onnx_model.canary import failing_kinds, run_canaries
        from qverify.sides.reference import Reference

        assert self._models.compiled is not None
        self._canary = dict(run_canaries())
        self._reference = Reference(self._models.compiled.integer_model(), self._models.graph, self._models.source)
        self._canary["distrusted"] = self._reference.computed_by(failing_kinds(self._canary))
        self._canary["exact_products"] = self._reference.has_exact_products
        return self._reference


def progress_of_step(watch: Watch | None, name: str) -> Callable[[int, int], None] | None:
    """Returns a function (done, total) that reports the progress of the named step; None if `watch` is None."""
    return None if watch is None else lambda done, total: watch(name, done, total)
