"""Entry point of Alembic. It uses the connection of app.db.migrate, or CARREL_ADMIN_DATABASE_URL without one."""

import asyncio

from alembic import context
from sqlalchemy import Connection

from app.db.migrate import configure_alembic, create_admin_engine
from app.settings import load_settings


def run(connection: Connection) -> None:
    """Run the requested migrations, each in one transaction."""
    configure_alembic(context, connection)
    with context.begin_transaction():
        context.run_migrations()


async def run_from_settings() -> None:
    """Run the migrations of the ``alembic`` command, which developers use."""
    url = load_settings().database.admin_url
    if url is None:
        raise SystemExit("CARREL_ADMIN_DATABASE_URL is not set: set it to the URL of the tables' owner")
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
