"""Who is calling and what they may do: the principal that authentication yields and every room is given."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self
from uuid import UUID


class Role(StrEnum):
    """What a key may do, weakest first."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"
    OPERATOR = "operator"

    def includes(self, needed: "Role") -> bool:
        """True when this role may do what ``needed`` may; only the operator is the operator."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


# Maximum number of rows of each kind in one tenant, unless the operator sets another. The database has the same numbers
# in default_row_quota, and refuses what is over them; a test compares both.
ROW_QUOTAS: Mapping[str, int] = {
    "knowledge_bases": 1_000,
    "api_keys": 1_000,
    "agents": 10_000,
    "prompt_versions": 10_000,
    "webhooks": 50,
    "stored_responses": 100_000,
    "sql_views": 100,
    "files": 100_000,
    "file_batches": 100_000,
    "batch_files": 1_000_000,
    "chats": 1_000_000,
}


@dataclass(frozen=True, slots=True)
class Quotas:
    """What a tenant, or a key of it, may use; None is the default of the service, or no limit if there is none.

    Quotas of rows, from ``knowledge_bases`` on, are of tenants alone.
    """

    documents: int | None = None
    stored_bytes: int | None = None
    chunks: int | None = None
    upload_bytes: int | None = None
    embedding_tokens_per_day: int | None = None
    searches_per_second: float | None = None
    concurrent_searches: int | None = None
    event_streams: int | None = None
    concurrent_ingestions: int | None = None
    knowledge_bases: int | None = None
    api_keys: int | None = None
    agents: int | None = None
    prompt_versions: int | None = None
    webhooks: int | None = None
    stored_responses: int | None = None
    sql_views: int | None = None
    files: int | None = None
    file_batches: int | None = None
    batch_files: int | None = None
    chats: int | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any] | None) -> Self:
        """As they stand in the database, where a newer version may know more of them."""
        field_names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in (stored or {}).items() if name in field_names})

    def to_json(self) -> dict[str, Any]:
        """Those that are set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def get_row_limit(self, quota: str) -> int:
        """Return the maximum number of rows under a quota of ``ROW_QUOTAS``."""
        value: int | None = getattr(self, quota)
        return ROW_QUOTAS[quota] if value is None else value

    @property
    def has_storage_limit(self) -> bool:
        """Whether what is stored has to be counted."""
        return any(limit is not None for limit in (self.documents, self.stored_bytes, self.chunks))


UNLIMITED = Quotas()


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Where a request comes from: the id it goes by, and the address of its client."""

    request_id: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is calling: the tenant comes from the credential alone. ``key_id`` is None for the operator.

    ``subject`` is whom an identity provider's token was issued to, None for a key. A token's ``key_id`` is no row's but
    made from issuer and subject, so that what is kept by key is kept apart for each of them.

    A key narrowed to a ``user_id`` reaches, of all users' and chats' levels, only that user's and their chats'.
    ``origin`` is told of requests that may change something. ``key_lineage_id`` is the first of the keys that rotation
    has made one after the other, this one among them: what is counted or kept by key is theirs together. A token's is
    its ``key_id``.
    """

    tenant_id: UUID
    tenant_name: str
    role: Role
    key_id: UUID | None = None
    key_name: str = "operator"
    knowledge_base_ids: frozenset[UUID] | None = None
    user_id: str | None = None
    subject: str | None = None
    origin: RequestOrigin = RequestOrigin()
    quotas: Quotas = UNLIMITED
    key_quotas: Quotas = UNLIMITED
    key_lineage_id: UUID | None = None

    @property
    def storage_quota_key_id(self) -> UUID | None:
        """The key that what it uploads is counted for, where that is counted by key."""
        return self.key_lineage_id if self.key_quotas.has_storage_limit else None

    @property
    def ingestion_quota_key_id(self) -> UUID | None:
        """The key that its jobs are counted for, where only so many of them run at once."""
        return self.key_lineage_id if self.key_quotas.concurrent_ingestions is not None else None

    def can_access(self, knowledge_base_id: UUID) -> bool:
        """False for a knowledge base outside those that the key is narrowed to."""
        return self.knowledge_base_ids is None or knowledge_base_id in self.knowledge_base_ids
