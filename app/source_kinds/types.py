"""Types of sources: the interface of a source, and references to secrets of the operator."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self

from app.errors import InvalidInputError

_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_.-]{1,100})\}")


class KnowledgeSource(Protocol):
    """Stored settings of a source.

    Attributes:
        kind: Kind of the knowledge base.
        default_transformers: Transformers of its queries if neither the search nor the knowledge base names any.
        takes_conversation: Whether the source gets the messages of a search instead of its queries.
        embedding_model: Embedding model of the queries as ``provider/model``; None if the source takes texts.
        embedding_dimensions: Number of dimensions of the model; None if the source takes texts.
        timeout_seconds: Maximum time of one request.
    """

    kind: ClassVar[str]
    default_transformers: ClassVar[Sequence[str]]
    takes_conversation: ClassVar[bool]

    @property
    def embedding_model(self) -> str | None: ...

    @property
    def embedding_dimensions(self) -> int | None: ...

    @property
    def timeout_seconds(self) -> float: ...

    @classmethod
    def from_stored(cls, source: Any) -> Self:
        """Create a source from its stored JSON."""


def parse_secret_name(value: str | None, loc: tuple[str, ...]) -> str | None:
    """Return the name of the secret in a reference such as ``${NAME}``; None without a reference.

    Args:
        value: Value of a field for a password or an API key.
        loc: Location of the field, for the error.

    Raises:
        InvalidInputError: The value is no reference. A literal secret would be stored and shown.
    """
    if value is None:
        return None
    match = _REFERENCE.fullmatch(value)
    if match is None:
        raise InvalidInputError("Give a reference to a secret of the operator, such as ${NAME}.", loc=loc)
    return match[1]
