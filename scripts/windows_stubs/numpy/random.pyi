from typing import Any

from . import Value

class Generator(Value): ...

def __getattr__(name: str) -> Any: ...
