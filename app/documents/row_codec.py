"""A document's row as the driver gives and takes it: JSON goes in as text."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy.dialects.postgresql import JSONB

from app.db.models.tenant_data import DocumentRow
from app.db.statements import Record

_COLUMNS = DocumentRow.__table__.columns
# By name: a column that a newer version of ours has added is none of ours.
_COLUMN_NAMES = tuple(column.name for column in _COLUMNS)
DOCUMENT_COLUMNS = ", ".join(_COLUMN_NAMES)
_JSON_COLUMNS = tuple(column.name for column in _COLUMNS if isinstance(column.type, JSONB))
# The model cannot have an attribute of this name.
_ATTRIBUTE_NAMES = {"metadata": "attributes"}


def parse_document_row(record: Record) -> DocumentRow:
    """Of DOCUMENT_COLUMNS and maybe more, to be read: what is changed in it is not written back."""
    return DocumentRow(**{_ATTRIBUTE_NAMES.get(name, name): record[name] for name in _COLUMN_NAMES})


def to_row_values(document: DocumentRow, columns: Iterable[str]) -> dict[str, Any]:
    """What a statement is to write into these columns."""
    values = {name: getattr(document, _ATTRIBUTE_NAMES.get(name, name)) for name in columns}
    for name in _JSON_COLUMNS:
        if values.get(name) is not None:
            values[name] = json.dumps(values[name], ensure_ascii=False)
    return values
