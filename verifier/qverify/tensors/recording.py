"""Recording: what one side produced for one set of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qverify.tensors.spec import TensorSpec

Array = npt.NDArray[np.generic]
State = Literal["complete", "partial", "did not run"]


class Tensors(Mapping[str, Array]):
    """Named tensors that are loaded on access, so that a Recording does not keep all of them in memory."""

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


@dataclass(slots=True)
class Recording:
    """What one side produced. side: float, reference, simulator, board, dump. specs: tensors this side offers. tensors:
    valid elements (shape = spec.shape) of those on this host; may be fewer than digests (a board's are pulled on
    demand). digests: tensor name to xxh64 (16 hex digits) of the valid bytes in stored axis order.
    missing: for each offered tensor that is not available, the reason. capabilities: among finals, per_node, inject,
    digests. runtime: what executed the model; set by the side that ran it, never read from a file: our own (qvrt) must
    give equal bytes. kernels: which documented kernels that runtime has (a key of compare/documented_rounding.NAMES), "" for
    kernels of which nothing is known, such as a delegate's; set as runtime is. node_seconds: what each node took in this very run, by its name, as the board measured it; empty
    where it told none."""

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
    why: str = ""  # why it is partial or did not run
    link: dict[str, int] = field(default_factory=dict)  # bytes_sent, bytes_received, cached_bytes
    notes: list[str] = field(default_factory=list)
    runtime: str = "qvrt"
    kernels: str = ""
    node_seconds: dict[str, float] = field(default_factory=dict)
    borrowed: frozenset[str] = frozenset()  # tensors taken from another side with the same digest
    pulled: dict[str, Array] = field(default_factory=dict)  # by compare/values.py: checked against their digests
