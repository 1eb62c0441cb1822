"""One side's tensors for a comparison: already sent, or pulled once and checked against their digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qverify.compare.paired_values import Histograms, bits_equal
from qverify.tensors.digest import tensor_digest
from qverify.tensors.recording import Array, Recording

Pull = Callable[[list[str]], Mapping[str, Array]]


class Values:
    """The tensors of one side. recording: the side; it remembers what was pulled. pull: requests tensors it has not
    sent. failed: tensor to why it cannot be had."""

    def __init__(self, recording: Recording, pull: Pull | None = None):
        self.recording, self.pull = recording, pull
        self.peers: list[Recording] = []  # other sides: a tensor with the same digest there need not be pulled
        self.failed: dict[str, str] = dict(recording.missing)
        self.histograms = Histograms()  # of this side's tensors with another's

    @property
    def keeps_arrays(self) -> bool:
        """Whether its tensors stay in memory, one array each; else each is loaded anew when it is read."""
        return isinstance(self.recording.tensors, dict)

    def histograms_with(self, other: Values) -> Histograms | None:
        """Returns the histograms to share; None where arrays of either side are loaded anew, and must not be kept."""
        return self.histograms if both_keep_arrays(self, other) else None

    def digest(self, name: str) -> str | None:
        """Returns the digest the side gave for this tensor, or None."""
        return self.recording.digests.get(name)

    def sent(self, name: str) -> bool:
        """Returns whether the side itself gave the bytes."""
        recording = self.recording
        return name in recording.pulled or (name in recording.tensors and name not in recording.borrowed)

    def fetch(self, names: list[str]) -> None:
        """Pulls, in one request, the tensors that are not here yet; failures are entered in `failed`."""
        wanted = [n for n in dict.fromkeys(names) if n not in self.failed and self.held(n) is None]
        if not wanted:
            return
        if self.pull is None:
            self.failed.update(dict.fromkeys(wanted, "declared, but not sent"))
            return
        try:
            arrays = self.pull(wanted)
        except Exception as error:  # the handed-in function speaks of links, which this room does not know
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
            self.failed[name] = "declared, but not sent when pulled"
        elif (declared := self.digest(name)) is not None and (got := tensor_digest(value)) != declared:
            self.failed[name] = f"the bytes sent have digest {got}, but the side had declared {declared}"
        else:
            self.recording.pulled[name] = value

    def get(self, name: str) -> Array | None:
        """Returns the valid elements, pulled where need be; None where they cannot be had (why: failed[name])."""
        self.fetch([name])
        return self.held(name)

    def held(self, name: str) -> Array | None:
        """Returns the valid elements if they are here already, else None; nothing is pulled."""
        if name in self.failed:
            return None
        if name in self.recording.tensors:
            return self.recording.tensors[name]
        return self.recording.pulled[name] if name in self.recording.pulled else self._from_peer(name)

    def _from_peer(self, name: str) -> Array | None:
        """Returns the same bytes from another side, recognised by the digest; None where no side has them."""
        digest, spec = self.digest(name), self.recording.specs.get(name)
        for peer in self.peers if digest is not None and spec is not None else ():
            if peer.digests.get(name) == digest and name in peer.tensors:
                value = peer.tensors[name]
                if (value.shape, value.dtype) == (spec.shape, spec.numpy_dtype):  # type: ignore[union-attr]
                    return value
        return None


def both_keep_arrays(a: Values, b: Values) -> bool:
    """Returns whether the arrays of both sides stay in memory, so that what is computed of them may be kept with them."""
    return a.keeps_arrays and b.keeps_arrays


def same_bytes(a: Values, b: Values, name_a: str, name_b: str) -> bool | None:
    """Returns whether the bytes are the same: by digest, else by value; None when that cannot be known."""
    left, right = a.digest(name_a), b.digest(name_b)
    if left is not None and right is not None:
        return left == right
    one, two = a.get(name_a), b.get(name_b)
    return None if one is None or two is None else bits_equal(one, two)
