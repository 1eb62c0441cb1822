"""Probes as the files that a board runs."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from qverify.errors import BoardError, UsageError
from qverify.files import write_bytes, write_text
from qverify.onnx_model.write_probes import write_probes
from qverify.session.probing.probe_store import ProbeStore
from qverify.session.triage.run_command import BUILD_TIMEOUT_S, fill_in_paths, run_to_end
from qverify.tensors.one_op import OneOp

KEY_LENGTH = 24  # hex digits of a key


@dataclass(frozen=True)
class ProbeModel:
    """Probes of one op in one model."""

    probes: tuple[OneOp, ...]

    @property
    def op(self) -> str:
        """The op of its probes."""
        return self.probes[0].op

    @cached_property
    def onnx(self) -> bytes:
        """The QDQ ONNX."""
        return write_probes(self.probes)

    @cached_property
    def key(self) -> str:
        """The hash of the model and its inputs."""
        digest = hashlib.sha256(self.onnx)
        for probe in self.probes:
            for operand in probe.inputs:
                digest.update(operand.codes.tobytes())
        return digest.hexdigest()[:KEY_LENGTH]

    @property
    def size_bytes(self) -> int:
        """The bytes of the model, its inputs and its outputs."""
        return len(self.onnx) + sum(2 * o.codes.size * 4 for p in self.probes for o in p.inputs)


def pack(probes: Sequence[OneOp], most: int) -> list[ProbeModel]:
    """Returns the probes in models of at most `most` each."""
    return [ProbeModel(tuple(probes[at : at + most])) for at in range(0, len(probes), most)]


def check_build(build: str | None) -> None:
    """Raises UsageError for a build command that cannot be one."""
    if build is None:
        return
    try:
        words = shlex.split(build)
    except ValueError as error:
        raise UsageError(f"--build-cmd {build!r}: {error}") from error
    if "{onnx}" not in build or ("{model}" not in build and "{bin}" not in build) or not words:
        raise UsageError(f"--build-cmd {build!r}: it must contain {{onnx}}, and {{model}} or {{bin}}")


def write_files(model: ProbeModel, store: ProbeStore, build: str | None, is_litert: bool) -> list[str]:
    """Writes what -m takes of a model: its ONNX, and what the board runs, if that is another file. Returns their paths.
    Raises BoardError if the build command fails, UnsupportedError for what LiteRT has no operator of."""
    path = store.file(model.key, "onnx")
    write_bytes(model.onnx, path)
    if is_litert:
        from qverify.tflite_model.write_probes import write_probes as write_tflite

        data, tensors = write_tflite(model.probes)
        write_bytes(data, store.file(model.key, "tflite"))
        write_text(json.dumps(tensors), f"{path}.map.json")
        return [path, store.file(model.key, "tflite")]
    if build is None:
        return [path]
    built = store.file(model.key, "model")
    if not os.path.isfile(built):
        words = shlex.split(build)
        try:
            status, last = run_to_end(fill_in_paths(words, path, built), BUILD_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise BoardError(f"--build-cmd {words[0]}: {error}") from error
        if status or not os.path.isfile(built):
            how = f"exit status {status}" if status else "it wrote no {model}"
            raise BoardError(f"--build-cmd {words[0]}: {how}{f', {last}' if last else ''}")
    return [path, built]
