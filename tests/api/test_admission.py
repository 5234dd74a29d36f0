"""Admission of large bodies: which bodies are large, and how many are read at a time."""

import asyncio
from uuid import UUID

import pytest
from fastapi import Request, Response

from app.api.http.admission import AdmissionControl, release_slots
from app.api.http.large_bodies import LARGE_BODY_BYTES, LargeBodiesBusy, TooManyLargeBodies, has_large_body
from app.tenant_slots import TenantSlots

ONE, OTHER = UUID(int=1), UUID(int=2)
SEARCH, UPLOAD, IMPORT = "/v1/search", "/v1/knowledge-bases/a/documents", "/v1/knowledge-bases/a/import"
LARGE, SMALL = str(LARGE_BODY_BYTES + 1), str(LARGE_BODY_BYTES)


def request(method: str = "POST", path: str = SEARCH, **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    server = ("carrel", 80)
    return Request(
        {"type": "http", "method": method, "path": path, "headers": raw, "server": server, "query_string": b""}
    )


@pytest.mark.parametrize(
    ("asked", "large"),
    [
        (request(content_length=LARGE), True),
        (request(content_length=SMALL), False),
        (request(transfer_encoding="chunked"), True),
        (request(), False),
        (request("GET", content_length=LARGE), False),
        (request("PATCH", content_length=LARGE), True),
        (request(path=UPLOAD, content_length=LARGE, content_type="application/json"), True),
        (request(path=UPLOAD, content_length=LARGE, content_type="multipart/form-data; boundary=b"), False),
        (request(path=IMPORT, content_length=LARGE, content_type="application/gzip"), False),
    ],
)
def test_has_large_body_depends_on_length_and_route(asked: Request, large: bool) -> None:
    assert has_large_body(asked) is large


async def test_admission_large_body_above_tenant_slots_is_refused() -> None:
    admission = AdmissionControl(TenantSlots(2, 1, 0.01, TooManyLargeBodies, LargeBodiesBusy))
    held, free = asyncio.Event(), asyncio.Event()

    async def hold() -> Response:
        held.set()
        await free.wait()
        return Response()

    async def answer() -> Response:
        return Response()

    first = asyncio.create_task(admission.run_request(request(content_length=LARGE), ONE, hold))
    await held.wait()
    with pytest.raises(TooManyLargeBodies):
        await admission.run_request(request(content_length=LARGE), ONE, answer)
    assert (await admission.run_request(request(content_length=SMALL), ONE, answer)).status_code == 200
    assert (await admission.run_request(request(content_length=LARGE), OTHER, answer)).status_code == 200
    free.set()
    await first
    assert (await admission.run_request(request(content_length=LARGE), ONE, answer)).status_code == 200


async def test_admission_waiting_request_frees_its_slot() -> None:
    admission = AdmissionControl(TenantSlots(1, 1, 0.01, TooManyLargeBodies, LargeBodiesBusy))
    admission.loop_shares.lag_seconds = 10.0
    waits, free = asyncio.Event(), asyncio.Event()
    asked = request(content_length=LARGE)

    async def wait() -> Response:
        await release_slots(asked)
        waits.set()
        await free.wait()
        return Response()

    async def answer() -> Response:
        return Response()

    first = asyncio.create_task(admission.run_request(asked, ONE, wait))
    await waits.wait()
    assert (await admission.run_request(request(content_length=LARGE), ONE, answer)).status_code == 200
    free.set()
    await first
