"""Draws the sequence of calls in the main job, from -m to a verdict."""

from __future__ import annotations

from scripts.documents import svg

ACTORS = ("cli", "session", "sides", "compare", "agents", "qvrt")
CAPTIONS = ("a person", "", "reference, simulator, board", "", "link", "on the board")
STEPS = (  # from, to (the same actor for a step without a partner), text
    ("cli", "session", "request: models, board, inputs, gates"),
    ("session", "session", "open the models; compile the ONNX anew and hold model.bin to it"),
    ("session", "session", "prepare one set of input bytes for all sides"),
    ("session", "sides", "run the reference (onnxruntime)"),
    ("session", "sides", "run the simulator (model.bin in numpy)"),
    ("session", "sides", "run the board"),
    ("sides", "agents", "connect to -b; put the agent there"),
    ("agents", "qvrt", "HELLO; HAVE, PUT: model and inputs it lacks"),
    ("agents", "qvrt", "RUN"),
    ("qvrt", "agents", "a digest for each node, then DONE"),
    ("sides", "session", "a recording of each side: tensors, digests"),
    ("session", "compare", "judge every pair of sides"),
    ("compare", "agents", "pull tensors whose digests differ (GET)"),
    ("compare", "sides", "recompute each node that differs, from recorded inputs"),
    ("compare", "session", "verdict of each pair, blame, coverage"),
    ("session", "cli", "report: text, JSON, exit status"),
)
COLUMN, STEP, TOP = 132, 36, 62


def draw() -> str:
    """Returns the diagram as SVG."""
    width, height = COLUMN * len(ACTORS) + 20, TOP + STEP * len(STEPS) + 26
    at = {name: 10 + COLUMN * (place + 0.5) for place, name in enumerate(ACTORS)}
    parts = []
    for name, caption in zip(ACTORS, CAPTIONS, strict=True):
        parts.append(svg.line(at[name], TOP - 10, at[name], height - 8, dashed=True))
        parts.append(svg.box(at[name] - 50, 6, 100, 28, name))
        parts.append(svg.text(at[name], 48, caption, "soft", "middle"))
    for number, (source, target, label) in enumerate(STEPS):
        y = TOP + STEP * number + 24
        parts += _step(at[source], at[target], y, f"{number + 1}. {label}", width)
    return svg.document(width, height, "The main job: who asks whom, from -m to a verdict", parts)


def _step(x1: float, x2: float, y: float, label: str, width: float) -> list[str]:
    """Returns an arrow with its label above it, kept inside the picture, or a dot for a step without a partner."""
    half = len(label) * 3.2
    if x1 == x2:
        return [f'<circle class="head" cx="{x1:g}" cy="{y - 4:g}" r="3.5"/>', svg.text(x1 + 10, y, label, "soft")]
    middle = min(max((x1 + x2) / 2, half + 4), width - half - 4)
    return [svg.arrow(x1, y, x2, y), svg.text(middle, y - 5, label, "soft", "middle")]
