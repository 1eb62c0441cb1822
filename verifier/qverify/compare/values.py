"""The tensors of one side for a comparison. They have been sent already, or are pulled once and checked against their
digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qverify.compare.paired_values import Histograms, bits_equal
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import NOT_SENT, Array, Recording

Pull = Callable[[list[str]], Mapping[str, Array]]


class Values:
    """The tensors of one side.

    Attributes:
        recording: the recording of the side, which also stores the tensors that are pulled.
        pull: function that requests tensors which the side has not sent, or None.
        peers: recordings of other sides. A tensor with the same digest there need not be pulled.
        failed: tensors that are not available, with the reason.
        histograms: joint histograms of this side's tensors with those of another side.
    """

    def __init__(self, recording: Recording, pull: Pull | None = None):
        self.recording, self.pull = recording, pull
        self.peers: list[Recording] = []
        self.failed: dict[str, str] = dict(recording.missing)
        self.histograms = Histograms()

    @property
    def keeps_arrays(self) -> bool:
        """Whether each tensor is kept in memory as one array. If not, it is loaded again whenever it is read."""
        return isinstance(self.recording.tensors, dict)

    def share_histograms(self, other: Values) -> Histograms | None:
        """Returns the cache of histograms, or None if arrays of either side are not kept in memory, so that no
        histogram may keep them."""
        return self.histograms if both_keep_arrays(self, other) else None

    def digest(self, name: str) -> str | None:
        """Returns the digest that the side sent for this tensor, or None."""
        return self.recording.digests.get(name)

    def was_sent(self, name: str) -> bool:
        """Returns whether the side itself sent the bytes."""
        recording = self.recording
        return name in recording.pulled or (name in recording.tensors and name not in recording.borrowed)

    def fetch(self, names: list[str]) -> None:
        """Pulls, in one request, those of the tensors that are not available yet. Enters failures in `failed`."""
        wanted = [n for n in dict.fromkeys(names) if n not in self.failed and self.get_local(n) is None]
        if not wanted:
            return
        if self.pull is None:
            self.failed.update(dict.fromkeys(wanted, NOT_SENT))
            return
        try:
            arrays = self.pull(wanted)
        except Exception as error:  # `pull` raises errors of links, which are not known in this package
            if not hasattr(error, "exit_status"):
                raise
            arrays = getattr(error, "matching", {})  # those that arrived whole
            broken = getattr(error, "broken", {})
            self.failed |= {n: f"could not be pulled: {broken.get(n, error)}" for n in wanted if n not in arrays}
        for name in wanted:
            if name not in self.failed:
                self._accept(name, arrays.get(name))

    def _accept(self, name: str, value: Array | None) -> None:
        if value is None:
            self.failed[name] = f"{NOT_SENT} when pulled"
        elif (declared := self.digest(name)) is not None and (actual := tensor_digest(value)) != declared:
            self.failed[name] = f"the bytes sent have digest {actual}, but the side had declared {declared}"
        else:
            self.recording.pulled[name] = value

    def get(self, name: str) -> Array | None:
        """Returns the valid elements, which are pulled if necessary, or None if they are not available; the reason is
        then in failed[name]."""
        self.fetch([name])
        return self.get_local(name)

    def get_local(self, name: str) -> Array | None:
        """Returns the valid elements if they are available without pulling, else None."""
        if name in self.failed:
            return None
        if name in self.recording.tensors:
            return self.recording.tensors[name]
        return self.recording.pulled[name] if name in self.recording.pulled else self._find_at_peer(name)

    def _find_at_peer(self, name: str) -> Array | None:
        """Returns the tensor of another side that has the same digest, or None if no side has one."""
        digest, spec = self.digest(name), self.recording.specs.get(name)
        for peer in self.peers if digest is not None and spec is not None else ():
            if peer.digests.get(name) == digest and name in peer.tensors:
                value = peer.tensors[name]
                if (value.shape, value.dtype) == (spec.shape, spec.numpy_dtype):  # type: ignore[union-attr]
                    return value
        return None


def both_keep_arrays(a: Values, b: Values) -> bool:
    """Returns whether the arrays of both sides are kept in memory, so that results computed from them may be kept,
    too."""
    return a.keeps_arrays and b.keeps_arrays


def same_bytes(a: Values, b: Values, name_a: str, name_b: str) -> bool | None:
    """Returns whether the bytes are the same, according to the digests or else the values, or None if that cannot be
    determined."""
    digest_a, digest_b = a.digest(name_a), b.digest(name_b)
    if digest_a is not None and digest_b is not None:
        return digest_a == digest_b
    value_a, value_b = a.get(name_a), b.get(name_b)
    return None if value_a is None or value_b is None else bits_equal(value_a, value_b)
