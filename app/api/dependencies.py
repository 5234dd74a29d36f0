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

from app.access import Origin, Principal, Role
from app.api.admission import Admission
from app.api.idempotency import CONFLICT, PARAMETER, WRITING, answer_once
from app.api.leaving import while_connected
from app.bootstrap import Resources, TenantServices
from app.documents.uploads import OVERHEAD
from app.errors import Forbidden, InvalidInput, TooMany, Unauthorized
from app.idempotency import IdempotencyKeys
from app.tenants.types import key_hash, looks_like_key
from app.times import storable_time

_bearer = HTTPBearer(auto_error=False, description="An API key, or a token: `Authorization: Bearer carrel_…`")
# What these routes are asked changes nothing, whatever the method: there is nothing that a retry could do twice.
ASKING_TAGS = frozenset({"search", "agent search", "answers", "preview", "mcp", "dify"})

# Long writes that can be sent again after any failure: they end when their caller leaves. Other writes are finished.
LONG_WRITES = ("/documents", "/documents/batch", "/import", "/files")


def get_resources(request: Request) -> Resources:
    """What the process holds."""
    resources: Resources = request.app.state.resources
    return resources


async def _identify(request: Request) -> Principal:
    credentials = await _bearer(request)
    if credentials is None:
        raise Unauthorized
    resources, token = get_resources(request), credentials.credentials
    address = request.client.host if request.client else None
    try:
        return await resources.authenticator.authenticate(token, address=address)
    except (Unauthorized, TooMany):
        resources.sign_ins.note(key_hash(token) if looks_like_key(token) else None, _origin(request))
        raise


def _origin(request: Request) -> Origin:
    """The address is what uvicorn makes of X-Forwarded-For, and may be any text that a proxy lets pass."""
    request_id = getattr(request.state, "request_id", None)
    try:
        address = ip_address(request.client.host.partition("%")[0]) if request.client else None
    except ValueError:
        address = None
    return Origin(request_id, None if address is None else str(address))


class GuardedRoute(APIRoute):
    """Tells who is calling before the body is read: FastAPI reads a JSON body first and asks dependencies then.

    A route that writes takes an Idempotency-Key.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        if self.writes:
            self.openapi_extra = {**(self.openapi_extra or {}), "parameters": [PARAMETER]}
            self.responses = {409: CONFLICT, **self.responses}

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return bool(WRITING & (self.methods or set())) and not ASKING_TAGS & set(self.tags)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Raises Unauthorized, TooManyFailures, Forbidden, TooManyLargeBodies, LargeBodiesBusy,
        TooManyAtOnce.
        """
        handle = super().get_route_handler()
        role = _required_role(self.dependant) if self.writes else Role.READER

        async def until_left(request: Request) -> Response:
            async with while_connected(request) as watched:
                return await handle(watched)

        async def guarded(request: Request) -> Response:
            request.state.began = time.monotonic()
            request.state.principal = principal = await _identify(request)
            admission: Admission = request.app.state.admission
            return await admission.run(request, principal.tenant_id, partial(admitted, request, principal))

        async def admitted(request: Request, principal: Principal) -> Response:
            if not self.writes:
                return await until_left(request)
            # Before the idempotency key is looked up: a stored answer is for callers who may still ask for it.
            _check_role(principal, role)
            request.state.principal = principal = replace(principal, origin=_origin(request))
            resources = get_resources(request)
            keys = IdempotencyKeys(resources.database)
            limit = resources.settings.server.max_upload_bytes + OVERHEAD
            work = until_left if self.path.endswith(LONG_WRITES) else handle
            return await answer_once(request, work, keys=keys, principal=principal, limit=limit)

        return guarded


# Asynchronous without need: the others are called in a thread, which costs more than all that they do.
async def _resources(request: Request) -> Resources:
    return get_resources(request)


CurrentResources = Annotated[Resources, Depends(_resources)]


class _Services(SecurityBase):
    """What a caller with this role may do.

    To the framework it is the security scheme itself: to resolve another dependency for that takes longer than this.
    """

    model, scheme_name = _bearer.model, _bearer.scheme_name

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, request: Request) -> TenantServices:
        """As the GuardedRoute has found out. Raises Forbidden."""
        principal: Principal = request.state.principal
        _check_role(principal, self.role)
        return get_resources(request).for_tenant(principal)


def _check_role(principal: Principal, role: Role) -> None:
    """Raises Forbidden."""
    if not principal.role.covers(role):
        raise Forbidden(f"This needs a key with the role {role.value}.")


def _required_role(dependant: Dependant) -> Role:
    """Return the highest role that a route's dependencies ask for."""
    own = [dependant.call.role] if isinstance(dependant.call, _Services) else []
    roles = own + [_required_role(below) for below in dependant.dependencies]
    return max(roles, key=list(Role).index, default=Role.READER)


def _require(role: Role) -> Any:
    return Security(_Services(role))


CurrentReader = Annotated[TenantServices, _require(Role.READER)]
CurrentWriter = Annotated[TenantServices, _require(Role.WRITER)]
CurrentAdmin = Annotated[TenantServices, _require(Role.ADMIN)]
CurrentOperator = Annotated[TenantServices, _require(Role.OPERATOR)]


@dataclass(frozen=True, slots=True)
class Page:
    """A caller's place in a list."""

    limit: int
    cursor: str | None

    def after(self) -> tuple[datetime, UUID] | None:
        """For lists that are ordered by time and id. Raises InvalidInput."""
        if self.cursor is None:
            return None
        try:
            at, last = self._decode()
            return storable_time(datetime.fromisoformat(at)), UUID(last)
        except (ValueError, TypeError, AttributeError, OverflowError) as exc:
            raise InvalidInput("The cursor is not one of ours.", loc=("query", "cursor")) from exc

    def after_number(self) -> int:
        """For lists that are ordered by a number. Raises InvalidInput."""
        if self.cursor is None:
            return -1
        try:
            (number,) = self._decode()
            if type(number) is not int or not 0 <= number < 2**31:
                raise ValueError
        except (ValueError, TypeError) as exc:
            raise InvalidInput("The cursor is not one of ours.", loc=("query", "cursor")) from exc
        return number

    def _decode(self) -> list[Any]:
        try:
            found = json.loads(base64.urlsafe_b64decode((self.cursor or "").encode("ascii")))
        except (binascii.Error, UnicodeError) as exc:
            raise ValueError from exc
        if not isinstance(found, list):
            raise TypeError
        return found


def next_cursor(*position: object) -> str:
    """Where the next page begins."""
    text = json.dumps([part.isoformat() if isinstance(part, datetime) else part for part in position], default=str)
    return base64.urlsafe_b64encode(text.encode()).decode()


def get_page(
    limit: Annotated[int, Query(ge=1, le=200)] = 50, cursor: Annotated[str | None, Query(max_length=512)] = None
) -> Page:
    """The pagination parameters of every list."""
    return Page(limit, cursor)


CurrentPage = Annotated[Page, Depends(get_page)]
