"""Types of the audit log: actions, actors and events. They contain ids and counts, never a text from a caller."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Self
from uuid import UUID

from app.principal import Principal, RequestOrigin, Role


class AuditAction(StrEnum):
    """Actions in the audit log. The part before the dot names the type of the object."""

    TENANT_CREATE = "tenant.create"
    TENANT_UPDATE = "tenant.update"
    TENANT_DELETE = "tenant.delete"
    KEY_CREATE = "key.create"
    KEY_ROTATE = "key.rotate"
    KEY_REVOKE = "key.revoke"
    KNOWLEDGE_BASE_CREATE = "knowledge_base.create"
    KNOWLEDGE_BASE_UPDATE = "knowledge_base.update"
    KNOWLEDGE_BASE_DELETE = "knowledge_base.delete"
    KNOWLEDGE_BASE_REINDEX = "knowledge_base.reindex"
    KNOWLEDGE_BASE_REINDEX_CANCEL = "knowledge_base.reindex_cancel"
    KNOWLEDGE_BASE_REINDEX_ROLLBACK = "knowledge_base.reindex_rollback"
    KNOWLEDGE_BASE_EXPORT = "knowledge_base.export"
    KNOWLEDGE_BASE_ENRICHMENT_RUN = "knowledge_base.enrichment_run"
    KNOWLEDGE_BASE_ENTITY_MERGE = "knowledge_base.entity_merge"
    KNOWLEDGE_BASE_ENTITY_SPLIT = "knowledge_base.entity_split"
    KNOWLEDGE_BASE_ENTITY_UNDO = "knowledge_base.entity_undo"
    SQL_VIEW_CREATE = "sql_view.create"
    SQL_VIEW_DELETE = "sql_view.delete"
    AGENT_CREATE = "agent.create"
    AGENT_UPDATE = "agent.update"
    AGENT_DELETE = "agent.delete"
    WEBHOOK_CREATE = "webhook.create"
    WEBHOOK_UPDATE = "webhook.update"
    WEBHOOK_DELETE = "webhook.delete"
    WEBHOOK_ROTATE = "webhook.rotate"
    WEBHOOK_DISABLE = "webhook.disable"
    WEBHOOK_TEST = "webhook.test"
    WEBHOOK_REPLAY = "webhook.replay"
    DOCUMENT_CREATE = "document.create"
    DOCUMENT_REPLACE = "document.replace"
    DOCUMENT_UPDATE = "document.update"
    DOCUMENT_REINDEX = "document.reindex"
    DOCUMENT_PREPARE_REINDEX = "document.prepare_reindex"
    DOCUMENT_DELETE = "document.delete"
    DOCUMENT_DELETE_MANY = "document.delete_many"
    DOCUMENT_EXPIRE = "document.expire"
    FILE_CREATE = "file.create"
    FILE_DELETE = "file.delete"
    FILE_BATCH_CREATE = "file_batch.create"
    FILE_BATCH_CANCEL = "file_batch.cancel"
    GOLDEN_SET_CREATE = "golden_set.create"
    GOLDEN_SET_UPDATE = "golden_set.update"
    GOLDEN_SET_DELETE = "golden_set.delete"
    GOLDEN_SET_ADD_ITEMS = "golden_set.add_items"
    GOLDEN_SET_DELETE_ITEM = "golden_set.delete_item"
    GOLDEN_SET_REMOVE_RELEVANT = "golden_set.remove_relevant"
    EVALUATION_CREATE = "evaluation.create"
    EVALUATION_DELETE = "evaluation.delete"
    JOB_RETRY = "job.retry"
    SIGN_IN_FAIL = "sign_in.fail"

    @property
    def object_type(self) -> str:
        """Type of the object that the action changes, for example ``document``."""
        return self.value.partition(".")[0]


class ActorKind(StrEnum):
    """Kinds of actors: API key, token of an identity provider, operator, the service itself, or unknown."""

    KEY = "key"
    TOKEN = "token"  # noqa: S105  (a word)
    OPERATOR = "operator"
    SERVICE = "service"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Actor:
    """Actor of an event, and the origin of its request."""

    kind: ActorKind
    id: UUID | None = None
    name: str | None = None
    origin: RequestOrigin = field(default_factory=RequestOrigin)

    @classmethod
    def from_principal(cls, principal: Principal) -> Self:
        """Return the actor of a caller.

        Args:
            principal: The caller.

        Returns:
            The operator, a token or an API key, with the origin of the request.
        """
        if principal.role is Role.OPERATOR:
            return cls(ActorKind.OPERATOR, name="operator", origin=principal.origin)
        if principal.subject is not None:
            return cls(ActorKind.TOKEN, principal.key_id, principal.subject, principal.origin)
        return cls(ActorKind.KEY, principal.key_id, principal.key_name, principal.origin)


# The actor of actions without a request: periodic jobs, and commands on the machine itself.
SERVICE_ACTOR = Actor(ActorKind.SERVICE)


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An action and its objects. ``counts`` has numbers by name."""

    action: AuditAction
    object_ids: Sequence[UUID] = ()
    kb_id: UUID | None = None
    deletion_id: UUID | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A stored audit event with its id, time and actor."""

    id: UUID
    created_at: datetime
    event: AuditEvent
    actor: Actor


@dataclass(frozen=True, slots=True)
class EventFilters:
    """Conditions on events. ``actor`` is the id of a key, or the name or kind of an actor. ``until`` is exclusive."""

    action: AuditAction | None = None
    actor: UUID | str | None = None
    object_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
