"""From a request to what its caller may do: credential → principal → services; and pagination."""

import base64
import binascii
import json
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
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
from app.api.http.idempotency import CONFLICT_RESPONSE, IDEMPOTENCY_PARAMETER, WRITE_METHODS, run_idempotent
from app.bootstrap import Resources, TenantServices
from app.documents.upload.multipart import MAX_FORM_OVERHEAD_BYTES
from app.errors import ForbiddenError, InvalidInputError, TooManyRequestsError, UnauthorizedError
from app.idempotency import IdempotencyStore
from app.principal import Principal, RequestOrigin, Role
from app.tenants.types import has_key_format, hash_key
from app.times import to_storable_time

_bearer = HTTPBearer(auto_error=False, description="An API key, or a token: `Authorization: Bearer carrel_…`")
# What these routes are asked changes nothing, whatever the method: there is nothing that a retry could do twice.
READ_ONLY_TAGS = frozenset({"search", "agent search", "answers", "preview", "mcp", "dify"})

# Long writes that can be sent again after any failure: they end when their caller leaves. Other writes are finished.
LONG_WRITE_PATHS = ("/documents", "/documents/batch", "/import", "/files")


def get_resources(request: Request) -> Resources:
    """What the process holds."""
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
    """The address is what uvicorn makes of X-Forwarded-For, and may be any text that a proxy lets pass."""
    request_id = getattr(request.state, "request_id", None)
    try:
        address = ip_address(request.client.host.partition("%")[0]) if request.client else None
    except ValueError:
        address = None
    return RequestOrigin(request_id, None if address is None else str(address))


class AuthenticatedRoute(APIRoute):
    """Tells who is calling before the body is read: FastAPI reads a JSON body first and asks dependencies then.

    A route that writes takes an Idempotency-Key.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        if self.is_write:
            self.openapi_extra = {**(self.openapi_extra or {}), "parameters": [IDEMPOTENCY_PARAMETER]}
            self.responses = {409: CONFLICT_RESPONSE, **self.responses}

    @property
    def is_write(self) -> bool:
        """Whether it may change something."""
        return bool(WRITE_METHODS & (self.methods or set())) and not READ_ONLY_TAGS & set(self.tags)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Raises UnauthorizedError, TooManyFailedSignIns, ForbiddenError, TooManyLargeBodies, LargeBodiesBusy,
        TooManyAtOnce.
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
            return await admission.run_request(
                request, principal.tenant_id, partial(handle_admitted, request, principal)
            )

        async def handle_admitted(request: Request, principal: Principal) -> Response:
            if not self.is_write:
                return await handle_until_disconnect(request)
            # Before the idempotency key is looked up: a stored answer is for callers who may still ask for it.
            _check_role(principal, role)
            request.state.principal = principal = replace(principal, origin=_build_origin(request))
            resources = get_resources(request)
            keys = IdempotencyStore(resources.database)
            limit = resources.settings.server.max_upload_bytes + MAX_FORM_OVERHEAD_BYTES
            handler = handle_until_disconnect if self.path.endswith(LONG_WRITE_PATHS) else handle
            return await run_idempotent(request, handler, keys=keys, principal=principal, max_body_bytes=limit)

        return handle_authenticated


# Asynchronous without need: the others are called in a thread, which costs more than all that they do.
async def _provide_resources(request: Request) -> Resources:
    return get_resources(request)


CurrentResources = Annotated[Resources, Depends(_provide_resources)]


class _TenantServicesDependency(SecurityBase):
    """What a caller with this role may do.

    To the framework it is the security scheme itself: to resolve another dependency for that takes longer than this.
    """

    model, scheme_name = _bearer.model, _bearer.scheme_name

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> TenantServices:
        """As the AuthenticatedRoute has found out. Raises ForbiddenError."""
        principal: Principal = request.state.principal
        _check_role(principal, self.role)
        return TenantServices(principal, get_resources(request))


def _check_role(principal: Principal, role: Role) -> None:
    """Raises ForbiddenError."""
    if not principal.role.includes(role):
        raise ForbiddenError(f"This needs a key with the role {role.value}.")


def _find_required_role(dependant: Dependant) -> Role:
    """Return the highest role that a route's dependencies ask for."""
    own_roles = [dependant.call.role] if isinstance(dependant.call, _TenantServicesDependency) else []
    roles = own_roles + [_find_required_role(sub_dependant) for sub_dependant in dependant.dependencies]
    return max(roles, key=list(Role).index, default=Role.READER)


def _require_role(role: Role) -> Any:
    return Security(_TenantServicesDependency(role))


CurrentReader = Annotated[TenantServices, _require_role(Role.READER)]
CurrentWriter = Annotated[TenantServices, _require_role(Role.WRITER)]
CurrentAdmin = Annotated[TenantServices, _require_role(Role.ADMIN)]
CurrentOperator = Annotated[TenantServices, _require_role(Role.OPERATOR)]


@dataclass(frozen=True, slots=True)
class PageParams:
    """A caller's place in a list."""

    limit: int
    cursor: str | None

    def parse_cursor(self) -> tuple[datetime, UUID] | None:
        """For lists that are ordered by time and id. Raises InvalidInputError."""
        if self.cursor is None:
            return None
        try:
            created_at, last_id = self._decode_cursor()
            return to_storable_time(datetime.fromisoformat(created_at)), UUID(last_id)
        except (ValueError, TypeError, AttributeError, OverflowError) as exc:
            raise InvalidInputError("The cursor is not one of ours.", loc=("query", "cursor")) from exc

    def parse_ordinal_cursor(self) -> int:
        """For lists that are ordered by a number. Raises InvalidInputError."""
        if self.cursor is None:
            return -1
        try:
            (number,) = self._decode_cursor()
            if type(number) is not int or not 0 <= number < 2**31:
                raise ValueError
        except (ValueError, TypeError) as exc:
            raise InvalidInputError("The cursor is not one of ours.", loc=("query", "cursor")) from exc
        return number

    def _decode_cursor(self) -> list[Any]:
        try:
            position = json.loads(base64.urlsafe_b64decode((self.cursor or "").encode("ascii")))
        except (binascii.Error, UnicodeError) as exc:
            raise ValueError from exc
        if not isinstance(position, list):
            raise TypeError
        return position


def encode_cursor(*position: object) -> str:
    """Where the next page begins."""
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
) -> PageParams:
    """The pagination parameters of every list."""
    return PageParams(limit, cursor)


CurrentPageParams = Annotated[PageParams, Depends(get_page_params)]
