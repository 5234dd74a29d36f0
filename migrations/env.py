"""Alembic's entry point: runs on the connection that app.db.migrate hands over, else on CARREL_ADMIN_DATABASE_URL."""

import asyncio

from alembic import context
from sqlalchemy import Connection

from app.db.migrate import configure_alembic, create_admin_engine
from app.settings import load_settings


def run(connection: Connection) -> None:
    """Run the wanted migrations in one transaction each."""
    configure_alembic(context, connection)
    with context.begin_transaction():
        context.run_migrations()


async def run_from_settings() -> None:
    """For the ``alembic`` command of a developer."""
    url = load_settings().database.admin_url
    if url is None:
        raise SystemExit("CARREL_ADMIN_DATABASE_URL must be set")
    engine = create_admin_engine(url.get_secret_value())
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


connection = context.config.attributes.get("connection")
if connection is None:
    asyncio.run(run_from_settings())
else:
    run(connection)
