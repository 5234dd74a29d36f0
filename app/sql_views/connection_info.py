"""Connection block of a SQL view: the fields of the vector store type ``pgvector`` of agent platforms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.inference.embedding import EmbeddingIdentity
from app.inference.embedding.local_models import is_local

DEFAULT_PASSWORD_VARIABLE = "SQL_VIEW_PASSWORD"  # noqa: S105  (the name of an environment variable)
DEFAULT_TOP_K = 5
LOCAL_PROVIDER, REMOTE_PROVIDER = "local", "openai"


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Fields of a connection block that the caller may choose.

    Attributes:
        provider: Provider of the embedding model on the platform; None for the setting of the service.
        password_variable: Environment variable of the platform that has the password.
        top_k: Number of rows that the platform reads for a query.
        metadata_filter: Metadata that a row must contain, in addition to that of the knowledge base.
        prompt_id: Id of a prompt; None for the answer prompt of the knowledge base.
        prompt_version: Version of the prompt; None for the version in use, or 1 for ``prompt_id``.
    """

    provider: str | None = None
    password_variable: str = DEFAULT_PASSWORD_VARIABLE
    top_k: int = DEFAULT_TOP_K
    metadata_filter: Mapping[str, Any] = field(default_factory=dict)
    prompt_id: str | None = None
    prompt_version: int | None = None


def choose_provider(
    options: ConnectionOptions, configured: str | None, identity: EmbeddingIdentity
) -> tuple[str, bool]:
    """Return the provider of an embedding model, and whether the provider is a guess.

    Args:
        options: The choices of the caller.
        configured: The provider in the settings of the service, or None.
        identity: The embedding model.

    Returns:
        The provider that is given or set. Otherwise ``local`` for a model that runs in the service, and ``openai`` for
        an endpoint. The second is a guess from the API of the endpoint.
    """
    named = options.provider or configured
    if named is not None:
        return named, False
    if is_local(identity.model, identity.precision):
        return LOCAL_PROVIDER, False
    return REMOTE_PROVIDER, True


def build_prompt_reference(options: ConnectionOptions, owner: str, version: int | None) -> dict[str, Any] | None:
    """Return id and version of the prompt in a connection block, or None if there is none.

    Args:
        options: The choices of the caller.
        owner: Name of the knowledge base.
        version: Version of the answer prompt of the knowledge base, or None if it has no such prompt.
    """
    if options.prompt_id is not None:
        return {"id": options.prompt_id, "version": options.prompt_version or 1}
    return None if version is None else {"id": f"{owner}/answer", "version": options.prompt_version or version}
