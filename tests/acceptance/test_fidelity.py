"""Contents of files of all formats, through ``POST /v1/preview``: nothing is lost without a warning."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from harness.fidelity.cases import FidelityCase, Verdict, judge_preview, load_cases
from harness.fidelity.office_files import iter_documents, iter_presentations, iter_workbooks
from harness.fidelity.pdf_files import iter_pdfs
from harness.fidelity.text_files import iter_data, iter_markdown, iter_pages, iter_texts
from harness.running_service import Service, Tenant

SAMPLES = Path(__file__).parents[1] / "samples" / "fidelity"
EVALUATION_DATA = os.environ.get("CARREL_EVAL_DATA")
GROUPS: list[Callable[[], Iterable[FidelityCase]]] = [
    iter_pages,
    iter_markdown,
    iter_texts,
    iter_data,
    iter_documents,
    iter_presentations,
    iter_workbooks,
    iter_pdfs,
]


@pytest.fixture(scope="module")
def tenant(service: Service) -> Tenant:
    return service.create_tenant("fidelity")


def preview_faults(tenant: Tenant, cases: Iterable[FidelityCase]) -> list[str]:
    """Return the faults of the cases whose text is not right and whose loss no warning reports."""
    faults = []
    for case in cases:
        reply = tenant.admin.post("/v1/preview", files={"file": (case.filename, case.data)})
        outcome = judge_preview(case, reply.status_code, reply.json())
        if outcome.verdict not in (Verdict.RIGHT, Verdict.REPORTED):
            faults.append(f"{case.filename}: {outcome.verdict}: {outcome.faults}")
    return faults


@pytest.mark.capability("format-loss")
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__.removeprefix("iter_"))
def test_generated_files_lose_nothing_silently(tenant: Tenant, group: Callable[[], Iterable[FidelityCase]]) -> None:
    assert preview_faults(tenant, group()) == []


def test_sample_files_lose_nothing_silently(tenant: Tenant) -> None:
    assert preview_faults(tenant, load_cases(SAMPLES)) == []


@pytest.mark.skipif(EVALUATION_DATA is None, reason="CARREL_EVAL_DATA does not name the evaluation sets")
def test_evaluation_files_lose_nothing_silently(tenant: Tenant) -> None:
    assert preview_faults(tenant, load_cases(Path(EVALUATION_DATA or "") / "cases")) == []


@pytest.mark.parametrize(
    ("status", "text", "warnings", "verdict"),
    [
        (200, "It costs 10\n EUR", [], Verdict.RIGHT),
        (200, "It costs 1 EUR", [], Verdict.SILENT),
        (200, "It costs 10 EUR, not 11 EUR", [], Verdict.SILENT),
        (200, "It costs 1 EUR", [{"code": "images_not_read"}], Verdict.REPORTED),
        (422, "", [], Verdict.REFUSED),
    ],
)
def test_verdict_depends_on_text_and_warnings(
    status: int, text: str, warnings: list[dict[str, str]], verdict: Verdict
) -> None:
    case = FidelityCase("prices", "a.txt", b"", has=("10 EUR",), hasnot=("11 EUR",))
    body = {"title": None, "chunks": [{"section_titles": [], "text": text}], "warnings": warnings}
    assert judge_preview(case, status, body).verdict is verdict


def test_case_without_texts_needs_its_warning() -> None:
    case = FidelityCase("attachments", "a.pdf", b"", warning_codes=("attachments_not_read",))
    body = {"title": None, "chunks": [], "warnings": [{"code": "images_not_read"}]}
    assert judge_preview(case, 200, body).verdict is Verdict.SILENT
    body["warnings"] = [{"code": "attachments_not_read"}]
    assert judge_preview(case, 200, body).verdict is Verdict.RIGHT
