"""Authentication of requests, the services of their callers, and pagination."""

import base64
import binascii
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from ipaddress import ip_address
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Query, Request, Response, Security
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from fastapi.security.base import SecurityBase

from app.api.http import example_values
from app.api.http.admission import AdmissionControl
from app.api.http.disconnects import watch_for_disconnect
from app.api.http.etags import NONE_MATCH_PARAMETER, NOT_MODIFIED_RESPONSE, add_etag, find_resource_schema
from app.api.http.idempotency import CONFLICT_RESPONSE, IDEMPOTENCY_PARAMETER, WRITE_METHODS, run_idempotent
from app.api.http.warning_schema import to_warnings_out
from app.bootstrap import Resources, TenantServices
from app.db.page_limits import PageLimit, create_page_limit
from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from app.errors import ForbiddenError, InvalidInputError, TooManyRequestsError, UnauthorizedError
from app.idempotency import IdempotencyStore
from app.principal import Principal, RequestOrigin, Role
from app.tenants.types import has_key_format, hash_key
from app.times import to_storable_time
from app.warnings import ServiceWarning, WarningCode

_bearer = HTTPBearer(auto_error=False, description="An API key, or a token: `Authorization: Bearer carrel_…`")
# Routes with these tags change nothing, even with POST. They need no idempotency key.
READ_ONLY_TAGS = frozenset({"search", "agent search", "answers", "preview", "mcp", "dify"})

# Long writes that can be repeated after any failure. They are cancelled if the caller closes the connection; other
# writes run to their end.
LONG_WRITE_PATHS = ("/documents", "/documents/batch", "/import", "/files")


def get_resources(request: Request) -> Resources:
    """Return the resources of the process."""
    resources: Resources = request.app.state.resources
    return resources


async def _authenticate(request: Request) -> Principal:
    credentials = await _bearer(request)
    if credentials is None:
        raise UnauthorizedError
    resources, token = get_resources(request), credentials.credentials
    address = request.client.host if request.client else None
    try:
        return await resources.authenticator.authenticate(token, address=address)
    except (UnauthorizedError, TooManyRequestsError):
        resources.sign_in_audit.record(hash_key(token) if has_key_format(token) else None, _build_origin(request))
        raise


def _build_origin(request: Request) -> RequestOrigin:
    """Return request id and address of the caller.

    uvicorn takes the address from ``X-Forwarded-For``, which may be any text. An invalid address becomes None.
    """
    request_id = getattr(request.state, "request_id", None)
    try:
        address = ip_address(request.client.host.partition("%")[0]) if request.client else None
    except ValueError:
        address = None
    return RequestOrigin(request_id, None if address is None else str(address))


class AuthenticatedRoute(APIRoute):
    """Route that authenticates the caller before the body is read. FastAPI's own dependencies would run after the JSON
    body is read.

    Routes that write accept the header ``Idempotency-Key``.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.resource_schema = find_resource_schema(self.response_model)
        if self.resource_schema is not None and not self.is_write:
            self.openapi_extra = {**(self.openapi_extra or {}), "parameters": [NONE_MATCH_PARAMETER]}
            self.responses = {304: NOT_MODIFIED_RESPONSE, **self.responses}
        if self.is_write:
            self.openapi_extra = {**(self.openapi_extra or {}), "parameters": [IDEMPOTENCY_PARAMETER]}
            self.responses = {409: CONFLICT_RESPONSE, **self.responses}

    @property
    def is_write(self) -> bool:
        """Whether the route may change something."""
        return bool(WRITE_METHODS & (self.methods or set())) and not READ_ONLY_TAGS & set(self.tags)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with authentication, admission control and idempotency.

        Returns:
            A handler that raises ``UnauthorizedError``, ``TooManyFailedSignIns``, ``ForbiddenError``,
            ``TooManyLargeBodies``, ``LargeBodiesBusy`` and ``TooManyAtOnce``.
        """
        handle = super().get_route_handler()
        role = _find_required_role(self.dependant) if self.is_write else Role.READER

        async def handle_until_disconnect(request: Request) -> Response:
            async with watch_for_disconnect(request) as watched_request:
                return await handle(watched_request)

        async def handle_authenticated(request: Request) -> Response:
            request.state.started_at = time.monotonic()
            request.state.principal = principal = await _authenticate(request)
            admission: AdmissionControl = request.app.state.admission
            response = await admission.run_request(
                request, principal.tenant_id, partial(handle_admitted, request, principal)
            )
            if self.resource_schema is None:
                return response
            none_match = request.headers.get("if-none-match")
            return add_etag(response, self.resource_schema, none_match=none_match, is_read=request.method == "GET")

        async def handle_admitted(request: Request, principal: Principal) -> Response:
            if not self.is_write:
                return await handle_until_disconnect(request)
            # Check the role before the idempotency key: a caller that has lost the role must not get a stored response.
            _check_role(principal, role)
            request.state.principal = principal = replace(principal, origin=_build_origin(request))
            resources = get_resources(request)
            keys = IdempotencyStore(resources.database)
            limit = resources.settings.server.max_upload_bytes + MAX_FORM_OVERHEAD_BYTES
            handler = handle_until_disconnect if self.path.endswith(LONG_WRITE_PATHS) else handle
            return await run_idempotent(request, handler, keys=keys, principal=principal, max_body_bytes=limit)

        return handle_authenticated


# The function is asynchronous, although it awaits nothing: FastAPI runs a synchronous dependency in a slower thread.
async def _provide_resources(request: Request) -> Resources:
    return get_resources(request)


CurrentResources = Annotated[Resources, Depends(_provide_resources)]


class _TenantServicesDependency(SecurityBase):
    """Dependency that checks the caller's role and returns the caller's services.

    It is also the security scheme of the OpenAPI document, because FastAPI would need extra time for a second
    dependency in each request.
    """

    model, scheme_name = _bearer.model, _bearer.scheme_name

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> TenantServices:
        """Return the services of the caller that ``AuthenticatedRoute`` authenticated. Raises ForbiddenError."""
        principal: Principal = request.state.principal
        _check_role(principal, self.role)
        return TenantServices(principal, get_resources(request))


def _check_role(principal: Principal, role: Role) -> None:
    """Check that the caller has the role. Raises ForbiddenError."""
    if not principal.role.includes(role):
        raise ForbiddenError(f"This needs a key with the role {role.value}.")


def _find_required_role(dependant: Dependant) -> Role:
    """Return the highest role that a route's dependencies require."""
    own_roles = [dependant.call.role] if isinstance(dependant.call, _TenantServicesDependency) else []
    roles = own_roles + [_find_required_role(sub_dependant) for sub_dependant in dependant.dependencies]
    return max(roles, key=list(Role).index, default=Role.READER)


def _require_role(role: Role) -> Any:
    return Security(_TenantServicesDependency(role))


CurrentReader = Annotated[TenantServices, _require_role(Role.READER)]
CurrentWriter = Annotated[TenantServices, _require_role(Role.WRITER)]
CurrentAdmin = Annotated[TenantServices, _require_role(Role.ADMIN)]
CurrentOperator = Annotated[TenantServices, _require_role(Role.OPERATOR)]


@dataclass(frozen=True)
class PageParams:
    """Pagination parameters of a request: page size, the position after which the page begins, and the count."""

    limit: int
    cursor: str | None
    count: bool = False

    @cached_property
    def row_limit(self) -> PageLimit:
        """Maximum number of rows: one more than the page, which shows whether another page follows."""
        return create_page_limit(self.limit + 1, needs_count=self.count)

    def build_reply(self, items: list[Any], next_cursor: str | None) -> dict[str, Any]:
        """Return the fields of the response with the items of the page."""
        return {"items": items, "next_cursor": next_cursor, **self.build_count_fields()}

    def build_count_fields(self) -> dict[str, Any]:
        """Return the fields of the response about the count: ``total``, or a warning; empty without a count."""
        if not self.count:
            return {}
        if self.row_limit.total is not None:
            return {"total": self.row_limit.total}
        code = WarningCode.COUNT_UNAVAILABLE
        return {"warnings": to_warnings_out([ServiceWarning(code, code.meaning)])}

    def parse_cursor(self) -> tuple[datetime, UUID] | None:
        """Parse the cursor of a list that is ordered by time and id.

        Returns:
            Creation time and id of the item before the page; None for the first page.

        Raises:
            InvalidInputError: The cursor is not valid.
        """
        if self.cursor is None:
            return None
        try:
            created_at, last_id = self._decode_cursor()
            return to_storable_time(datetime.fromisoformat(created_at)), UUID(last_id)
        except (ValueError, TypeError, AttributeError, OverflowError) as exc:
            raise InvalidInputError("Invalid cursor.", loc=("query", "cursor")) from exc

    def parse_ordinal_cursor(self) -> int:
        """Parse the cursor of a list that is ordered by a number.

        Returns:
            Number of the item before the page; -1 for the first page.

        Raises:
            InvalidInputError: The cursor is not valid.
        """
        if self.cursor is None:
            return -1
        try:
            (number,) = self._decode_cursor()
            if type(number) is not int or not 0 <= number < 2**31:
                raise ValueError
        except (ValueError, TypeError) as exc:
            raise InvalidInputError("Invalid cursor.", loc=("query", "cursor")) from exc
        return number

    def parse_chunk_cursor(self) -> tuple[UUID, int] | None:
        """Parse the cursor of a list of chunks of several documents.

        Returns:
            Document and index of the chunk before the page; None for the first page.

        Raises:
            InvalidInputError: The cursor is not valid.
        """
        if self.cursor is None:
            return None
        try:
            document_id, ordinal = self._decode_cursor()
            if type(ordinal) is not int or not 0 <= ordinal < 2**31:
                raise ValueError
            return UUID(document_id), ordinal
        except (ValueError, TypeError, AttributeError) as exc:
            raise InvalidInputError("Invalid cursor.", loc=("query", "cursor")) from exc

    def parse_name_cursor(self) -> tuple[str, int] | None:
        """Parse the cursor of a list that is ordered by a name and a number of 32 bits.

        Returns:
            Name and number of the item before the page; None for the first page.

        Raises:
            InvalidInputError: The cursor is not valid.
        """
        if self.cursor is None:
            return None
        try:
            name, number = self._decode_cursor()
            if type(name) is not str or type(number) is not int or not -(2**31) <= number < 2**31 or "\0" in name:
                raise ValueError
            name.encode()
        except (ValueError, TypeError) as exc:
            raise InvalidInputError("Invalid cursor.", loc=("query", "cursor")) from exc
        return name, number

    def _decode_cursor(self) -> list[Any]:
        try:
            position = json.loads(base64.urlsafe_b64decode((self.cursor or "").encode("ascii")))
        except (binascii.Error, UnicodeError) as exc:
            raise ValueError from exc
        if not isinstance(position, list):
            raise TypeError
        return position


def encode_cursor(*position: object) -> str:
    """Encode a cursor from the sort keys of the last item on a page."""
    text = json.dumps([part.isoformat() if isinstance(part, datetime) else part for part in position], default=str)
    return base64.urlsafe_b64encode(text.encode()).decode()


def get_page_params(
    limit: Annotated[int, Query(ge=1, le=200, description="Maximum number of items, 1 to 200.", examples=[50])] = 50,
    cursor: Annotated[
        str | None,
        Query(
            max_length=512,
            description="`next_cursor` of the page before; at most 512 characters.",
            examples=[example_values.CURSOR],
        ),
    ] = None,
    count: Annotated[
        bool, Query(description="Whether the response has `total`, the number of all items.", examples=[True])
    ] = False,
) -> PageParams:
    """Return the pagination parameters of a list request."""
    return PageParams(limit, cursor, count)


CurrentPageParams = Annotated[PageParams, Depends(get_page_params)]
