"""python -m qverify_farm.ui.draft_child: drafts the description of an untrusted model's pictures, in a process that may crash."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

from qverify_agents.deadline import Deadline
from qverify_agents.errors import LinkError

from qverify_farm.work.child import Child, ChildDied, serve

DEADLINE_S = 30.0
MAX_CHARACTERS = 20_000
_one_at_a_time = threading.Lock()


def draft_in_child(paths: list[Path]) -> str:
    """Returns a draft, as TOML, of the description of a model's pictures, or the reason why there is none as a comment. One
    model at a time is read; the others wait. paths: the files of -m."""
    with _one_at_a_time, contextlib.closing(Child("qverify_farm.ui.draft_child")) as child:
        try:
            answer = child.ask({"paths": [str(path) for path in paths]}, Deadline(DEADLINE_S))
        except (ChildDied, LinkError) as error:
            answer = {"draft": f"# no draft: the model was not read ({error})"}
    return str(answer["draft"])[:MAX_CHARACTERS]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Returns the draft of the model request["paths"] as "draft"."""
    from qverify.errors import QVerifyError
    from qverify.printable import printable
    from qverify.renderers import drafts
    from qverify.session.inputs.draft_descriptions import draft_descriptions

    paths = request["paths"]
    try:
        return {"draft": drafts.render(draft_descriptions(paths)).partition("\n")[2] + "\n"}
    except QVerifyError as error:
        names = {path: Path(path).name.partition("-")[2] for path in paths}
        text = str(error)
        for path, name in names.items():
            text = text.replace(path, name)
        return {"draft": f"# no draft: {printable(text)}\n"}


if __name__ == "__main__":
    serve(answer)
