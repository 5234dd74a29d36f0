"""The principal: the authenticated caller with role, restrictions and quotas."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self
from uuid import UUID


class Role(StrEnum):
    """Role of an API key or token. The members are ordered from the weakest to the strongest role."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"
    OPERATOR = "operator"

    def includes(self, needed: "Role") -> bool:
        """Return whether this role has all rights of the role ``needed``. No other role includes the role operator."""
        order = list(Role)
        return order.index(self) >= order.index(needed)


# Maximum number of rows of each kind in one tenant, unless the operator sets another. The SQL function
# default_row_quota has the same numbers, and the database refuses further rows. A test compares both.
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
    "golden_sets": 1_000,
    "golden_items": 100_000,
    "evaluations": 1_000,
}


@dataclass(frozen=True, slots=True)
class Quotas:
    """Quotas of a tenant or an API key. None means the default of the service; some quotas have no default.

    The row quotas, from ``knowledge_bases`` on, apply to tenants only.
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
    golden_sets: int | None = None
    golden_items: int | None = None
    evaluations: int | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any] | None) -> Self:
        """Return quotas from their JSON in the database. Unknown quotas of newer versions are ignored."""
        field_names = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in (stored or {}).items() if name in field_names})

    def to_json(self) -> dict[str, Any]:
        """Return the quotas as JSON for the database, without unset quotas."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def get_row_limit(self, quota: str) -> int:
        """Return the maximum number of rows under a quota of ``ROW_QUOTAS``."""
        value: int | None = getattr(self, quota)
        return ROW_QUOTAS[quota] if value is None else value

    @property
    def has_storage_limit(self) -> bool:
        """Whether stored documents, bytes or chunks must be counted."""
        return any(limit is not None for limit in (self.documents, self.stored_bytes, self.chunks))


UNLIMITED = Quotas()


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """Origin of a request: its id, and the address of its client."""

    request_id: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller. The tenant comes from the credential alone.

    Attributes:
        tenant_id: Id of the tenant.
        tenant_name: Name of the tenant.
        role: Role of the credential.
        key_id: Id of the API key; None for the operator. For a token it is derived from issuer and subject, so that
            usage is counted for each subject.
        key_name: Name of the API key.
        knowledge_base_ids: The only knowledge bases that a restricted key may use; None means all.
        user_id: The user of a restricted key. The key cannot see documents of other users, or of chats
            that the user does not own.
        subject: Subject of an identity provider's token; None for an API key.
        origin: Origin of a request that may change something.
        quotas: Quotas of the tenant.
        key_quotas: Quotas of the API key.
        key_lineage_id: The first key of the rotations that made this one. Usage of all these keys is counted under it.
            For a token it is ``key_id``.
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
        """The key under which uploads are counted, if the API key has a storage quota."""
        return self.key_lineage_id if self.key_quotas.has_storage_limit else None

    @property
    def ingestion_quota_key_id(self) -> UUID | None:
        """The key under which running jobs are counted, if the API key has a quota of concurrent ingestions."""
        return self.key_lineage_id if self.key_quotas.concurrent_ingestions is not None else None

    def can_access(self, knowledge_base_id: UUID) -> bool:
        """Return whether the key may use a knowledge base."""
        return self.knowledge_base_ids is None or knowledge_base_id in self.knowledge_base_ids
