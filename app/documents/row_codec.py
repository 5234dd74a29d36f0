"""Conversion between ``DocumentRow`` and the driver's records and parameters, in which JSON is text."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy.dialects.postgresql import JSONB

from app.db.models.tenant_data import DocumentRow
from app.db.statements import Record

_COLUMNS = DocumentRow.__table__.columns
# Columns are named, because a newer version of the service may have added columns that this version does not know.
_COLUMN_NAMES = tuple(column.name for column in _COLUMNS)
DOCUMENT_COLUMNS = ", ".join(_COLUMN_NAMES)
_JSON_COLUMNS = tuple(column.name for column in _COLUMNS if isinstance(column.type, JSONB))
# SQLAlchemy reserves the attribute name ``metadata``.
_ATTRIBUTE_NAMES = {"metadata": "attributes"}


def parse_document_row(record: Record) -> DocumentRow:
    """Return the document in a record that has DOCUMENT_COLUMNS. Changes of the returned object are not stored."""
    return DocumentRow(**{_ATTRIBUTE_NAMES.get(name, name): record[name] for name in _COLUMN_NAMES})


def to_row_values(document: DocumentRow, columns: Iterable[str]) -> dict[str, Any]:
    """Return a document's values for the named columns as statement parameters."""
    values = {name: getattr(document, _ATTRIBUTE_NAMES.get(name, name)) for name in columns}
    for name in _JSON_COLUMNS:
        if values.get(name) is not None:
            values[name] = json.dumps(values[name], ensure_ascii=False)
    return values
