"""The original ONNX on onnxruntime as its users run it: a session without any option, in a child process."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qverify.onnx_model import engine
from qverify.onnx_model.crash_watch import is_armed
from qverify.onnx_model.find_optimizer import FUSES_INTEGERS, FoundOptimizer, SessionSettings, find_optimizer
from qverify.onnx_model.mapped_model import MappedModel
from qverify.sides.engine_child import EngineEnded
from qverify.sides.idle_engines import borrowed, start_copy
from qverify.tensors.recording import Array

PROGRAM = Path(engine.__file__).with_name("run_sessions.py")
DEFAULT = SessionSettings()


def start_early() -> None:
    """Starts the child, before this process opens a session, where it can begin as a copy of this process: in one of the
    command line alone, because another program may have threads and libraries that no copy survives."""
    if is_armed() and not engine.has_opened():
        engine.version()  # imports onnxruntime
        start_copy(PROGRAM)


class PlainOnnxruntime:
    """Runs one model file. model: its bytes, which are not changed; a mapped file is run where it lies."""

    def __init__(self, model: bytes | MappedModel):
        self._model, self._written = model, False
        self._folder = Path(tempfile.mkdtemp(prefix="qverify-plain-"))
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def run(
        self, feed: Mapping[str, Array], names: Sequence[str], settings: SessionSettings | None = None
    ) -> dict[str, Array] | str:
        """Returns the outputs by name, or why there are none."""
        if not names:  # onnxruntime would return all outputs
            return {}
        try:
            return self._request(feed, names, settings or DEFAULT)
        except EngineEnded as error:
            return f"onnxruntime fails on the model: {error}"
        except OSError as error:
            return f"the files for onnxruntime cannot be written: {error.strerror or error}"

    def _request(
        self, feed: Mapping[str, Array], names: Sequence[str], settings: SessionSettings
    ) -> dict[str, Array] | str:
        model = self._file()
        feed_arrays: dict[str, Any] = {
            str(k): np.asarray(v, str) if v.dtype.kind == "O" else v for k, v in enumerate(feed.values())
        }
        with borrowed(PROGRAM) as child:
            np.savez(child.folder / "feed.npz", **feed_arrays)
            request = {
                "model": str(model),
                "feed": str(child.folder / "feed.npz"),
                "inputs": [*feed],
                "outputs": [*names],
                "level": settings.level,
                "disabled": [*settings.disabled],
                "config": dict(settings.config),
                "result": str(child.folder / "result"),
            }
            answer = child.request(request)
            if "why" not in answer:
                return dict(zip(names, child.read_arrays(answer, "result"), strict=True))
        return f"onnxruntime fails on the model: {answer['why']}"

    def _file(self) -> Path:
        """Returns the path of the model's file. Raises BadFileError if a mapped one was changed."""
        if isinstance(self._model, MappedModel):
            self._model.check_unchanged()
            return Path(self._model.path).absolute()
        model = self._folder / "model.onnx"
        if not self._written:
            model.write_bytes(self._model)
            self._written = True
        return model

    def find_optimizer(
        self, feed: Mapping[str, Array], changed: Mapping[str, Array], saturates: bool = False
    ) -> FoundOptimizer:
        """Returns the optimizer that makes this model's outputs differ from those without optimizations. saturates: whether
        its products of integers saturate on this processor; what makes integer kernels is then tried first."""

        def run(settings: SessionSettings) -> Mapping[str, Array] | None:
            values = self.run(feed, list(changed), settings)
            return None if isinstance(values, str) else values

        return find_optimizer(run, changed, first=FUSES_INTEGERS if saturates else "")
