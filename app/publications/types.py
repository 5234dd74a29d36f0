"""The nouns of publications: how one is asked for, what it is, and what its readers must know."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from urllib.parse import unquote, urlsplit
from uuid import UUID

from app.errors import Conflict, NotFound
from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.weights import MODEL
from app.settings import PublicationSettings

COLLECTION = r"^[a-z_][a-z0-9_]{0,62}$"
RESERVED = "pg_"  # Postgres' own are found before all others
CONTENT_KEY = r"^[A-Za-z_][A-Za-z0-9_.-]{0,62}$"
DEFAULT_PORT = 5432
LONGEST_NAME = 63


class PublicationOff(Conflict):
    """The operator does not allow this tenant to publish knowledge bases."""

    code = "publication_off"


class PublicationExists(Conflict):
    """The knowledge base is published already; revoke that first: its password is told once."""

    code = "publication_exists"


class PublicationNotFound(NotFound):
    """The knowledge base is not published."""

    code = "publication_not_found"


class NotPublishable(Conflict):
    """Shared knowledge bases cannot be published."""

    code = "not_publishable"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the readers find the database."""

    host: str
    port: int
    database: str
    sslmode: str

    @classmethod
    def of(cls, settings: PublicationSettings, database_url: str, *, is_embedded: bool) -> Self:
        """What is set, over what the service itself uses. The embedded Postgres has no TLS."""
        parts = urlsplit(database_url)
        options = dict(re.findall(r"(\w+)=([^&]*)", parts.query))
        return cls(
            settings.host or parts.hostname or "localhost",
            settings.port or parts.port or DEFAULT_PORT,
            settings.database or unquote(parts.path.strip("/")),
            settings.sslmode or ("disable" if is_embedded else options.get("sslmode", "prefer")),
        )


@dataclass(frozen=True, slots=True)
class StoredPublication:
    """A publication as it is stored; ``is_shown`` once the view is there, or why it is ``held_back``."""

    id: UUID
    kb_id: UUID
    collection: str
    content_key: str
    is_shown: bool
    held_back: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that a reader has to know; ``code`` is stable."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class PublicationView:
    """A publication, and what an agent platform is told to read it."""

    stored: StoredPublication
    login: str
    address: Address
    identity: Mapping[str, Any]
    dim: int

    @property
    def warnings(self) -> Sequence[Warned]:
        """Where the readers' vectors would be others than ours, and where what is read can be overheard."""
        identity = EmbeddingIdentity.stored(self.identity)
        found = []
        if identity.model == MODEL:
            message = "The vectors are the embedded model's: a platform without it cannot embed its queries alike."
            found.append(Warned("embedded_model", message))
        if identity.query_prefix:
            message = f"The platform must put this before each query that it embeds: {identity.query_prefix!r}"
            found.append(Warned("query_prefix", message))
        if self.address.sslmode in ("disable", "allow", "prefer"):
            message = f"With sslmode {self.address.sslmode} what is read may go through the network in the clear."
            found.append(Warned("no_tls", message))
        return found

    @property
    def manifest(self) -> dict[str, Any]:
        """The block for the platform's configuration."""
        return {
            "type": "pgvector",
            "hostname": self.address.host,
            "port": self.address.port,
            "user": self.login,
            "dbname": self.address.database,
            "sslmode": self.address.sslmode,
            "collection": self.stored.collection,
            "content_key": self.stored.content_key,
            "embedding_model": self.identity["model"],
            "embedding_dimensions": self.dim,
        }


def collection_of(name: str) -> str:
    """A knowledge base's name as an identifier that needs no quotes."""
    word = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")[: LONGEST_NAME - 3]
    is_fit = re.match(COLLECTION, word) and not word.startswith(RESERVED)
    return word if is_fit else f"kb_{word}".rstrip("_")
