"""The tasks, one page each: NAME (what --task takes), LABELS (what its labels are, in words), DEFAULTS (its options),
SUMMARY (a line of help) and Evaluator(context), a Metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qverify.closest_names import did_you_mean
from qverify.decoders import Decoder, Result, find_decoder, pages
from qverify.errors import TaskError, UsageError
from qverify.model_bin.graph import Graph
from qverify.pages import load_pages
from qverify.printable import printable
from qverify.session.task.metrics import Metric

Outputs = Mapping[str, npt.NDArray[Any]]
OTHER_STRIDES: tuple[dict[str, Any], ...] = tuple(
    {"strides": list(s)}
    for s in ((8, 16, 32, 64), (8, 16), (16, 32), (4, 8, 16, 32), (4, 8, 16), (32, 64), (4,), (8,), (16,), (32,))
)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a task is measured on.

    Attributes:
        graph: the compiled network.
        names: its final outputs.
        labels: path of the labels, "" for none.
        options: the page's options, as text.
        decoder: text of --decoder, "" for none.
        table: [decoder] of the description.
        fit: how a description says that pictures are fitted into the input; "" if none does.
    """

    graph: Graph
    names: list[str]
    labels: str
    options: Mapping[str, str] = field(default_factory=dict)
    decoder: str = ""
    table: Mapping[str, Any] = field(default_factory=dict)
    fit: str = ""

    @property
    def input_size(self) -> tuple[int, int]:
        """Width and height of the network's first input that is a picture; (0, 0) without one."""
        for name in self.graph.inputs:
            shape = self.graph.spec(name).shape
            if len(shape) == 4:
                return (shape[2], shape[1]) if shape[3] in (1, 3, 4) and shape[1] > 4 else (shape[3], shape[2])
        return 0, 0

    def number(self, key: str, low: float, high: float) -> float:
        """Returns an option as a number. Raises TaskError unless it is within low to high."""
        try:
            value = float(self.options[key])
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise TaskError(f"--task: {key} {printable(self.options[key])}: wanted {low:g} to {high:g}")
        return value

    def find_decoder(self, usual: str, result: tuple[str, ...], **more: Any) -> Decoder:
        """Returns the decoder that was named, else the task's usual one. result: keys of KINDS that the task can use. more:
        settings that count where the user states none. Raises TaskError."""
        stated = dict(self.table)
        if isinstance(stated.get("priors"), str):
            raise TaskError("[decoder] priors: wanted the numbers; a file is named with --decoder NAME,priors=FILE.npy")
        named = self.decoder or str(stated.get("name", "")) or usual
        if not self.decoder and ":" in named:
            raise TaskError(f"[decoder] name {printable(named)}: a function of yours is named with --decoder")
        if not named:
            raise TaskError(f"--task: no decoder fits the outputs ({self.say_shapes()}); give --decoder NAME")
        stated.pop("name", None)
        try:
            found = find_decoder(named, {**more, **stated})
        except UsageError as error:
            raise TaskError(str(error)) from error
        if found.result not in ("", *result):
            raise TaskError(f"--decoder {found.name}: gives {found.result}; the task takes {' or '.join(result)}")
        return found

    def fitting_decoders(self, result: tuple[str, ...], **more: Any) -> list[str]:
        """Returns the names of the packaged decoders that take outputs of the network's shapes."""
        wanted = [page.NAME for page in pages() if page.RESULT in result]
        fit = [n for n in wanted if any(self._takes(n, {**more, **strides}) for strides in ({}, *OTHER_STRIDES))]
        with_anchors = [n for n in fit if n in {page.NAME for page in pages() if hasattr(page, "candidates")}]
        return with_anchors or fit

    def _takes(self, name: str, settings: Mapping[str, Any]) -> bool:
        """Returns whether a packaged decoder takes outputs of the network's shapes."""
        try:
            stated = {k: v for k, v in self.table.items() if k != "name"}
            return self._fits(find_decoder(name, {**settings, **stated}))
        except UsageError:
            return False

    def _try(self, decoder: Decoder) -> None:
        """Raises UsageError if the decoder does not take outputs of the network's shapes."""
        decoder.decode({n: self._as_stored(n, np.zeros(self.graph.spec(n).shape)) for n in self.names})

    def count_classes(self, decoder: Decoder) -> int:
        """Returns the number of class scores that a detector reads from outputs of the network's shapes."""
        assert decoder.candidates is not None
        outputs = {n: self._as_stored(n, np.zeros(self.graph.spec(n).shape)) for n in self.names}
        return int(decoder.candidates(outputs, decoder.settings).values.shape[1])

    def find_strides(self, usual: str, result: tuple[str, ...], **more: Any) -> dict[str, Any]:
        """Returns the strides that the outputs' shapes fit, if the user states none and the decoder's own do not fit: those of
        OTHER_STRIDES, if one alone does; else {}."""
        decoder = self.find_decoder(usual, result, **more)
        if "strides" in self.table or "strides=" in self.decoder or not decoder.result:
            return {}
        try:
            self._try(decoder)
        except UsageError:
            fitting = [s for s in OTHER_STRIDES if self._fits(self.find_decoder(usual, result, **more, **s))]
            return fitting[0] if len(fitting) == 1 else {}
        return {}

    def _fits(self, decoder: Decoder) -> bool:
        try:
            self._try(decoder)
        except UsageError:
            return False
        return True

    def check_decoder(self, decoder: Decoder) -> None:
        """Raises TaskError, before anything runs, if a packaged decoder does not take outputs of the network's shapes."""
        if decoder.result:
            try:
                self._try(decoder)
            except UsageError as error:
                raise TaskError(f"--decoder {decoder.name}: {error}") from error

    def say_shapes(self) -> str:
        """Returns the outputs with their shapes, for a message."""
        shapes = (f"{printable(n)} {'x'.join(map(str, self.graph.spec(n).shape))}" for n in self.names[:8])
        return ", ".join(shapes)

    def decode(
        self, decoder: Decoder, outputs: Outputs, frame: str, side: str, size: tuple[int, int] = (0, 0)
    ) -> Result:
        """Returns what the decoder makes of the outputs of a side. size: of the picture, to whose pixels results are
        brought. Raises TaskError."""
        if size != (0, 0) and decoder.settings.frame == (0, 0):
            decoder = replace(decoder, settings=replace(decoder.settings, frame=size))
        try:
            return decoder.decode({n: self._as_stored(n, v) for n, v in outputs.items()})
        except UsageError as error:
            raise TaskError(f"frame {printable(frame)}, {side}: {error}") from error

    def _as_stored(self, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the values of an output of integers that are no quantized ones as integers."""
        spec = self.graph.spec(name)
        plain = not spec.scale and spec.numpy_dtype.kind in "iub" and np.isfinite(values).all()
        return values.astype(np.int64) if plain else values


class TaskPage(Protocol):
    """A page of this folder."""

    NAME: str
    LABELS: str
    SUMMARY: str
    DEFAULTS: Mapping[str, str]

    def Evaluator(self, context: TaskContext) -> Metric: ...


@cache
def _pages() -> dict[str, Any]:
    found = load_pages(__name__, ("NAME", "LABELS", "SUMMARY", "DEFAULTS", "Evaluator"))
    return {page.NAME: page for page in found}


def task_pages() -> Mapping[str, TaskPage]:
    """Returns the pages by name."""
    return _pages()


def parse_task(text: str) -> tuple[TaskPage, dict[str, str]]:
    """Returns the page and the options of `KIND,KEY=VALUE,...`. Raises TaskError for anything else."""
    kind, *parts = text.split(",")
    known = task_pages()
    if kind not in known:
        raise TaskError(f"--task {printable(kind)}: wanted one of {', '.join(known)}{did_you_mean(kind, list(known))}")
    options = dict(known[kind].DEFAULTS)
    for part in parts:
        key, equals, value = part.partition("=")
        if key not in options or not equals:
            wanted = ", ".join(f"{k}=VALUE" for k in options) or "no options"
            raise TaskError(f"--task {printable(text)}: {printable(part)}: wanted {wanted}")
        options[key] = value
    return known[kind], options
