"""``carrel migrate``: bring the schema to this version."""

import asyncio

import typer

from app.cli.runtime_state import find_runtime
from app.db.migrate import migrate_database as run_migrations
from app.errors import AppError
from app.settings import load_settings


def migrate() -> None:
    """Migrate the database's schema to this version; safe to repeat, also while old replicas run.

    CARREL_ADMIN_DATABASE_URL is the tables' owner, CARREL_DATABASE_URL the plain role that the service uses.

    Example: CARREL_ADMIN_DATABASE_URL=… CARREL_DATABASE_URL=… carrel migrate
    """
    runtime = find_runtime(load_settings())
    if runtime.admin_database_url is None:
        raise AppError("CARREL_ADMIN_DATABASE_URL must be set")
    asyncio.run(run_migrations(runtime.admin_database_url, runtime.database_url))
    typer.echo("The schema is up to date.")
