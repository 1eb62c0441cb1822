"""Recording: what one side produced for one set of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qverify.tensors.placement import Placement
from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[np.generic]
State = Literal["complete", "partial", "did not run", "not read"]  # not read: it ran, and left nothing readable
NO_VALUES: tuple[State, ...] = ("did not run", "not read")


class Tensors(Mapping[str, Array]):
    """Named tensors that are loaded whenever they are read, so that a Recording does not keep all of them in memory."""

    def __init__(self, loaders: Mapping[str, Callable[[], Array]]):
        self._loaders = loaders

    def __getitem__(self, name: str) -> Array:
        return self._loaders[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._loaders

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


FINALS_ONLY, ASKED = "finals_only", "per_node=0"  # the setting of a side whose user asked for final outputs only

NOT_IN_DUMP, NO_FILE, NOT_LISTED = "not in the dump", "no file of it", "not listed in the capture"
NOT_SENT = "declared, but not sent"
NOT_GIVEN = (
    NOT_IN_DUMP,
    NO_FILE,
    NOT_LISTED,
    NOT_SENT,
)  # beginnings of reasons why a tensor that a side did not give is missing


@dataclass(slots=True)
class Untapped:
    """The final outputs of the user's unchanged model on a board, beside a run in which inner tensors were read, too.

    Attributes:
        tensors: the final outputs by name, {} if it did not run.
        why: why it did not run, "" if it did.
        level: the lowest optimization level of the runtime at which its outputs are not those of the run with taps, ""
            if that is not known or they are.
        optimizers: the optimizers of the runtime without which they are, as far as they are known.
    """

    tensors: dict[str, Array] = field(default_factory=dict)
    why: str = ""
    level: str = ""
    optimizers: tuple[str, ...] = ()


@dataclass(slots=True)
class Recording:
    """The results of one side for one set of inputs.

    Attributes:
        side: float, reference, simulator, board or dump.
        engine, version: the program that computed the tensors, and its version.
        settings: settings of the run, for the report.
        host: name of the host or board.
        duration_s: duration of the run in seconds.
        specs: specs of the tensors that the side offers.
        finals: names of the final outputs.
        tensors: valid elements (shape = spec.shape) of the tensors that are on this host. There may be fewer of them
            than digests, because a board's tensors are pulled on demand.
        digests: xxh64 (16 hex digits) of the valid bytes in stored axis order, by tensor.
        missing: offered tensors that are not available, with the reason.
        capabilities: a subset of finals, per_node, inject, digests.
        model_sha256, inputs_sha256: hashes of the model and of the inputs.
        state: whether the run is complete.
        why: the reason why it is partial, did not run or could not be read.
        link: counters of the link: bytes_sent, bytes_received, cached_bytes.
        notes: notes for the report.
        runtime: the runtime that executed the model. It is set by the side that ran it and never read from a file,
            because qvrt must produce equal bytes.
        kernels: the documented kernels of that runtime (a key of compare/documented_rounding.NAMES), or "" for kernels
            of which nothing is known, such as a delegate's. It is set like `runtime`.
        node_seconds: duration of each node in this run, by name, as the board measured it; empty if it sent none.
        borrowed: tensors that were taken from another side with the same digest.
        pulled: tensors that compare/values.py has pulled and checked against their digests.
        untapped: the final outputs without taps, if this run had taps; else None.
        containers: tensors that the side gave in another container than the model's (flat, another type), from which
            they were read, with what was given and what was wanted.
        is_engine: whether an engine on this host computed it as a further side (--simulator ENGINE), named by `side`.
        placement: where each node ran, in running order; () if the engine does not say.
        ledger: versions of what took part (driver, firmware, compiler, builder of the model's file), by name.
        inventory, tags: of a board of boards.toml: its name, and its tags.
    """

    side: str
    engine: str
    version: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    host: str = ""
    duration_s: float = 0.0
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    finals: tuple[str, ...] = ()
    tensors: Mapping[str, Array] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset({"finals"})
    model_sha256: str = ""
    inputs_sha256: str = ""
    state: State = "complete"
    why: str = ""
    link: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    runtime: str = "qvrt"
    kernels: str = ""
    node_seconds: dict[str, float] = field(default_factory=dict)
    borrowed: frozenset[str] = frozenset()
    pulled: dict[str, Array] = field(default_factory=dict)
    untapped: Untapped | None = None
    containers: dict[str, str] = field(default_factory=dict)
    is_engine: bool = False
    placement: tuple[Placement, ...] = ()
    ledger: dict[str, str] = field(default_factory=dict)
    inventory: str = ""
    tags: dict[str, str] = field(default_factory=dict)
