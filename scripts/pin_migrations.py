"""Write the digests of the SQL files that migrations run into ``migrations/pins``, one file for each migration.

Run this for a new migration. The text of a released migration never changes: if a function's file changes, keep its
former text in ``migrations/former/<the new revision>/`` and pin the new migration only.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from alembic.script import Script, ScriptDirectory

from app.db.migrate import create_alembic_config
from app.db.sql_files import read_migration_sql, read_sql

PINS = Path(__file__).resolve().parents[1] / "migrations" / "pins"


def read_texts(script: Script) -> Mapping[str, str]:
    """Return the SQL files that a migration runs, by their path in the repository."""
    module = script.module
    files = {f"migrations/{path}": read_migration_sql(path) for path in getattr(module, "SCRIPTS", ())}
    for name in (
        *(f"functions/{name}.sql" for name in getattr(module, "FUNCTIONS", ())),
        *(f"triggers/{name}.sql" for name in getattr(module, "TRIGGERS", ())),
    ):
        files[f"app/db/sql/{name}"] = read_sql(name, script.revision)
    return files


def format_pins(script: Script) -> str:
    """Return the content of a migration's file of pins, in the format of sha256sum."""
    return "".join(
        f"{hashlib.sha256(text.encode()).hexdigest()}  {path}\n" for path, text in sorted(read_texts(script).items())
    )


def list_migrations() -> list[Script]:
    """Return all migrations, the oldest first."""
    return [*ScriptDirectory.from_config(create_alembic_config()).walk_revisions()][::-1]


if __name__ == "__main__":
    PINS.mkdir(exist_ok=True)
    for migration in list_migrations():
        (PINS / f"{migration.revision}.sha256").write_text(format_pins(migration))
