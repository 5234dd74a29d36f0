"""A document's row as the driver gives and takes it: JSON goes in as text."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy.dialects.postgresql import JSONB

from app.db.models.tenant_data import Document
from app.db.statements import Record

_TABLE = Document.__table__.columns
# By name: a column that a newer version of ours has added is none of ours.
_NAMES = tuple(column.name for column in _TABLE)
DOCUMENT_COLUMNS = ", ".join(_NAMES)
_JSON = tuple(column.name for column in _TABLE if isinstance(column.type, JSONB))
# The model cannot have an attribute of this name.
_ATTRIBUTES = {"metadata": "attributes"}


def document_from(record: Record) -> Document:
    """Of DOCUMENT_COLUMNS and maybe more, to be read: what is changed in it is not written back."""
    return Document(**{_ATTRIBUTES.get(name, name): record[name] for name in _NAMES})


def values_of(document: Document, columns: Iterable[str]) -> dict[str, Any]:
    """What a statement is to write into these columns."""
    values = {name: getattr(document, _ATTRIBUTES.get(name, name)) for name in columns}
    for name in _JSON:
        if values.get(name) is not None:
            values[name] = json.dumps(values[name], ensure_ascii=False)
    return values
