"""Renders the errors of a tensor by channels: a bar for each block of channels, the worst channels, and its roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qverify.renderers.html_page.elements import element, listed, text
from qverify.report.channels import ChannelErrors, RoleRow, describe_worst_channels
from qverify.report.document import TensorRow

WIDTH, HEIGHT = 640, 80  # of the bars, in pixels
MAX_DRAWN = 12  # tensors of a pair whose channels are drawn
NAMES = {  # of the numbers of a channel
    **{"differing": "elements that differ", "max_abs": "max |a-b|", "max_lsb": "max LSB", "mean_error": "mean b - a"},
    **{"clipped_a": "clipped share of a", "clipped_b": "of b"},
}
ROLE_NAMES = {  # of those of a role
    **{
        "mismatched": "elements that differ",
        "max_abs": "max |a-b|",
        "rmse": "rmse",
        "sqnr_db": "SQNR dB",
        "cosine": "cosine",
    },
    **{"kl_divergence": "KL", "max_ulp": "ULP", "clipped": "clipped share of a channel of b"},
}


def choose_drawn(rows: Sequence[TensorRow]) -> set[str]:
    """Returns the names of the tensors of a pair whose channels are drawn: of the outputs that differ, then of the tensors that
    did not pass, the first MAX_DRAWN."""
    differing = [row for row in rows if not row.bit_equal]
    outputs = [row.name for row in differing if row.final]
    return {*[*outputs, *(r.name for r in differing if not r.final and r.verdict != "PASSED")][:MAX_DRAWN]}


def channels_and_roles(row: TensorRow) -> str:
    """Returns the drawing and the lines of a tensor; "" for one whose bytes are equal."""
    errors = row.channels
    parts = [_bars(errors), _worst(errors)] if errors is not None and errors.worst else []
    return "".join(parts) + (_roles(row.roles) if row.roles and not row.bit_equal else "")


def _bars(errors: ChannelErrors) -> str:
    """Returns a bar for each block of channels: its share of the squared error, or its largest |a-b| if that is not
    finite."""
    values = errors.shares or [min(value, 1e300) for value in errors.max_abs]
    top, step = max(values, default=0.0), WIDTH / max(len(values), 8)
    if not top > 0:
        return ""
    bars = "".join(
        f"M{(at + 0.5) * step:.1f} {HEIGHT + 10}v{-max(1.0, HEIGHT * value / top):.1f}"
        for at, value in enumerate(values)
        if value > 0
    )
    what = "share of the squared error" if errors.shares else "largest |a-b|"
    path = element(
        "path", d=bars, stroke_width=f"{max(step - 2, 1):.1f}", class_="s-bad", stroke="#b3261e", fill="none"
    )
    axis = element(
        "path", d=f"M0 {HEIGHT + 10.5}h{len(values) * step:.0f}", class_="s-grid", stroke="#c9d1d9", fill="none"
    )
    ends = [
        element("text", "0", x=0, y=HEIGHT + 25),
        element("text", str(errors.channels - 1), x=f"{len(values) * step:.0f}", y=HEIGHT + 25, text_anchor="end"),
    ]
    said = describe_worst_channels(errors)
    label = f"{what} by channel" + (f"; {said}" if said else "")
    box = f"0 0 {WIDTH} {HEIGHT + 30}"
    svg = element(
        "svg",
        axis,
        path,
        *ends,
        viewBox=box,
        width=WIDTH,
        height=HEIGHT + 30,
        role="img",
        aria_label=label,
        class_="bars",
    )
    blocks = f", {errors.width} channels a bar" if errors.width > 1 else ""
    highest = f"{top:.3g}" if not errors.shares else f"{top:.1%}".replace("%", " %")
    words = f"{what} by channel (axis {errors.axis}, {errors.channels} channels{blocks}); highest bar {highest}"
    return element("figure", svg, element("figcaption", text(words)))


def _worst(errors: ChannelErrors) -> str:
    """Returns the worst channels as lines: a table within the table of tensors would be sorted with it."""
    lines = []
    for channel in errors.worst:
        share = "" if channel.share is None else f"{channel.share:.1%} of the squared error, ".replace("%", " %")
        lines.append(f"channel {channel.channel}: {share}{_say(channel.metrics, NAMES)}")
    return element("p", "worst channels") + listed(lines)


def _roles(roles: list[RoleRow]) -> str:
    lines = []
    for role in roles:
        gates = f"; {role.verdict}: {role.why or ', '.join(role.gates)}" if role.gates else ""
        lines.append(f"role {role.role}, channels {role.channels}: {_say(role.metrics, ROLE_NAMES)}{gates}")
    return element("p", "roles") + listed(lines)


def _say(metrics: Mapping[str, float | int | None], names: Mapping[str, str]) -> str:
    known = ((words, metrics.get(key)) for key, words in names.items())
    return ", ".join(f"{words} {value:.4g}" for words, value in known if value is not None)
