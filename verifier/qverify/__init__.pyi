from qverify import errors as errors
from qverify.api.calls import compare as compare
from qverify.api.calls import compile as compile
from qverify.api.calls import replay as replay
from qverify.api.calls import triage as triage
from qverify.api.calls import verify as verify
from qverify.api.more_calls import inputs_diff as inputs_diff
from qverify.api.more_calls import outputs_diff as outputs_diff
from qverify.api.more_calls import quantize as quantize
from qverify.api.more_calls import report_diff as report_diff
from qverify.api.more_calls import suite as suite
from qverify.api.results import Compiled as Compiled
from qverify.api.results import Report as Report
from qverify.api.results import Triage as Triage
from qverify.api.tool_results import InputsDiff as InputsDiff
from qverify.api.tool_results import OutputsDiff as OutputsDiff
from qverify.api.tool_results import Quantized as Quantized
from qverify.api.tool_results import ReportDiff as ReportDiff
from qverify.api.tool_results import Suite as Suite

__version__: str
__all__: list[str]
