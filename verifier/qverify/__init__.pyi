from qverify import errors as errors
from qverify.api.calls import compare as compare
from qverify.api.calls import compile as compile
from qverify.api.calls import replay as replay
from qverify.api.calls import triage as triage
from qverify.api.calls import verify as verify
from qverify.api.results import Compiled as Compiled
from qverify.api.results import Report as Report
from qverify.api.results import Triage as Triage

__version__: str
__all__: list[str]
