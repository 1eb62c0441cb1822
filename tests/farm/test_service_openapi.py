"""The OpenAPI document of the service is correct: schemathesis sends requests that it permits, and requests that it forbids."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.farm.service_app import Service, serving

EXAMPLES = 6  # of each operation


def test_every_address_is_described_with_its_errors(service: Service) -> None:
    document = service.client.get("/api/v1/openapi.json").json()
    methods = [
        (path, method, one) for path, by in document["paths"].items() for method, one in by.items() if method != "head"
    ]
    assert len(methods) > 35
    for path, method, one in methods:
        assert one["summary"] and one["description"] and one["tags"], (path, method)
        if path.startswith("/api/"):
            for status in ("401", "403", "404", "422", "429", "503"):
                content = one["responses"][status]["content"]["application/json"]["schema"]
                assert content == {"$ref": "#/components/schemas/ErrorReply"}, (path, method, status)
    for path in ("verifications", "suites", "triages"):
        headers = [one for one in document["paths"][f"/api/v1/{path}"]["post"]["parameters"] if one["in"] == "header"]
        assert [one["name"] for one in headers] == ["Idempotency-Key"] and "sent again" in headers[0]["description"]
    assert "HTTPValidationError" not in document["components"]["schemas"]
    names = {name for one in document["components"]["schemas"].values() for name in one.get("properties", ())}
    assert "hash" not in names


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_schemathesis_finds_no_5xx_and_no_undocumented_reply(tmp_path: Path, mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import schemathesis

        settings = {"requests_per_s": 1e6, "burst": 1_000_000, "max_streams": 0}
        with serving(str(tmp_path / "farm.db"), tmp_path, **settings) as service:
            run = service.submit()
            service.ended(run)
            known = {"run": run, "job": service.client.get(f"/api/v1/runs/{run}/jobs").json()["jobs"][0]["id"]}
            known |= {"sha256": service.put(b"there"), "board": "j5-0", "name": "default"}
            headers = service.bearer()
            schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", service.app)
            tests = {one.ok().label: _asking(one.ok(), mode, headers, known) for one in schema.get_all_operations()}
            assert len(tests) > 40
            wrong = {label: said for label, test in tests.items() if (said := _said(test))}
            assert wrong == {}


def _asking(operation: Any, mode: str, headers: dict[str, str], known: dict[str, str]) -> Callable[[], None]:
    """Returns a test that asks an address for what its schema describes, or for what it does not. known: names of what
    there is, taken for every second question."""
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.response_schema_conformance,
        checks.status_code_conformance,
        checks.content_type_conformance,
        *([checks.negative_data_rejection] if mode == "negative" else []),
    ]
    numbers = itertools.count()

    @hypothesis.given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def ask(case: Any) -> None:
        if mode == "positive" and next(numbers) % 2:
            for name in known.keys() & dict(case.path_parameters or {}).keys():
                case.path_parameters[name] = known[name]
        case.validate_response(case.call(headers=headers), checks=wanted)

    return ask


def _said(test: Callable[[], None]) -> str:
    try:
        test()
    except hypothesis.errors.Unsatisfiable:  # nothing can be wrong with a question that has no part
        return ""
    except Exception as error:
        return str(error)[:1000]
    return ""
