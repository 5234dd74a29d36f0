"""``carrel migrate``: migrate the schema of the database."""

import asyncio

import typer

from app.cli.runtime_state import find_runtime
from app.db.migrate import migrate_database as run_migrations
from app.errors import AppError
from app.settings import load_settings


def migrate() -> None:
    """Migrate the schema of the database to this version of Carrel.

    Run this command before you start a new version. You can repeat the command, and run it while processes of the old
    version run. CARREL_ADMIN_DATABASE_URL contains the role that owns the tables. CARREL_DATABASE_URL contains the role
    of the service, which does not own the tables.

    Example: CARREL_ADMIN_DATABASE_URL=… CARREL_DATABASE_URL=… carrel migrate
    """
    runtime = find_runtime(load_settings())
    if runtime.admin_database_url is None:
        raise AppError("CARREL_ADMIN_DATABASE_URL must be set: migrations run as the role that owns the tables")
    asyncio.run(run_migrations(runtime.admin_database_url, runtime.database_url))
    typer.echo("The schema is up to date. Start the service with `carrel serve`.")
