"""Names and addresses of SQL views."""

from dataclasses import asdict
from typing import Any

import pytest

from app.inference.embedding import EmbeddingIdentity
from app.settings import SqlViewSettings
from app.sql_views.types import ConnectionAddress, SqlViewDetails, build_default_view_name


@pytest.mark.parametrize(
    ("name", "collection"),
    [
        ("handbook", "handbook"),
        ("Staff handbook 2026", "staff_handbook_2026"),
        ("2026", "kb_2026"),
        ("pg_class", "kb_pg_class"),
        ("手册", "kb"),
        ('x"; drop table t; --', "x_drop_table_t"),
        ("a" * 200, "a" * 60),
        ("9" * 200, "kb_" + "9" * 60),
    ],
)
def test_default_view_name_is_an_identifier(name: str, collection: str) -> None:
    assert build_default_view_name(name) == collection


@pytest.mark.parametrize(
    ("settings", "url", "is_embedded", "address"),
    [
        ({}, "postgresql://u:p@db.local:5433/carrel?sslmode=require", False, ("db.local", 5433, "carrel", "require")),
        ({}, "postgresql://u:p@db.local/carrel", False, ("db.local", 5432, "carrel", "prefer")),
        ({}, "postgresql://u:p@127.0.0.1:4000/carrel", True, ("127.0.0.1", 4000, "carrel", "disable")),
        (
            {
                "CARREL_SQL_VIEW_HOST": "pool.example.com",
                "CARREL_SQL_VIEW_PORT": 6432,
                "CARREL_SQL_VIEW_DATABASE": "read",
                "CARREL_SQL_VIEW_SSLMODE": "verify-full",
            },
            "postgresql://u:p@db.local/carrel",
            False,
            ("pool.example.com", 6432, "read", "verify-full"),
        ),
    ],
)
def test_connection_address_setting_overrides_database_url(
    settings: dict[str, Any], url: str, is_embedded: bool, address: tuple[object, ...]
) -> None:
    found = ConnectionAddress.from_settings(SqlViewSettings(**settings), url, is_embedded=is_embedded)
    assert (found.host, found.port, found.database, found.sslmode) == address


@pytest.mark.parametrize(
    ("model", "precision", "codes"),
    [
        ("bge-small-en-v1.5", "int8", ["embedded_model"]),
        ("all-MiniLM-L6-v2", "fp32", ["embedded_model"]),
        ("my-model@0123456789ab", "onnx-cls", ["embedded_model"]),
        ("all-MiniLM-L6-v2", "remote", ["provider_assumed"]),
        ("text-embedding-3-small", "remote", ["provider_assumed"]),
    ],
)
def test_warnings_only_a_local_model_has_the_warning_of_local_models(
    model: str, precision: str, codes: list[str]
) -> None:
    stored: Any = None
    identity = asdict(EmbeddingIdentity(model, 384, precision, "", ""))
    address = ConnectionAddress("db.local", 5432, "carrel", "verify-full")
    details = SqlViewDetails(stored, "login", "schema", address, identity, 384, "handbook")
    assert [warning.code for warning in details.warnings] == codes
