"""The tables' owner at work on publications: a view, its schema and its login, made, led on and taken away.

All that is formatted into a statement here is a UUID, a number, or a word whose form a constraint of the table
publication keeps; it is quoted all the same.
"""

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from app.db.maintenance import OwnerConnection

CONNECTION_LIMIT = 10
# The defaults of the login's sessions. A filtered search goes on in the vector index until it has enough rows; those
# that look at more than so many give up.
SESSION = {
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
    "default_transaction_read_only": "on",
    "hnsw.iterative_scan": "strict_order",
    "hnsw.max_scan_tuples": "100000",
    "hnsw.scan_mem_multiplier": "4",
    "jit": "off",
}
VIEW_OWNER = "carrel_publication"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a publication is: names that say nothing, for every login of the database can read all names."""

    id: UUID

    @property
    def schema(self) -> str:
        """That holds the view alone."""
        return f"pub_{self.id.hex}"

    @property
    def login(self) -> str:
        """Who may read the view. The policies know the publication by it."""
        return f"carrel_pub_{self.id.hex}"


@dataclass(frozen=True, slots=True)
class PublicationOwner:
    """What the owner does for publications."""

    connection: OwnerConnection

    @property
    def _driver(self) -> asyncpg.Connection:
        return self.connection.driver

    async def settle(self, tenant_id: UUID, publication_id: UUID) -> bool:
        """Make what is missing, follow the live search index, or take away what was revoked; True where that was so.

        Doing it again changes nothing.
        """
        place = Place(publication_id)
        if await self._driver.fetchval(_IS_REVOKED, tenant_id, publication_id):
            await self._shut(place)
        async with self._driver.transaction():
            await self._driver.execute("set local lock_timeout = '5s'")
            row = await self._driver.fetchrow(_HOLD, tenant_id, publication_id)
            if row is None:
                return False
            if row["removed_at"] is not None:
                await self._drop(place)
                await self._driver.execute(_REMOVE, tenant_id, publication_id)
                return True
            live = await self._driver.fetchrow(_LIVE, tenant_id, row["kb_id"])
            if live is None or live["id"] == row["index_id"]:
                return False
            if row["index_id"] is None:
                await self._make(place, row["verifier"])
            await self._show(place, row, live)
            await self._driver.execute(_SET_SHOWN, tenant_id, publication_id, live["id"])
        return False

    async def due(self) -> list[tuple[UUID, UUID, UUID]]:
        """Tenant, knowledge base and id of those that want something."""
        return [tuple(row) for row in await self._driver.fetch(_DUE)]

    async def drop_strays(self) -> int:
        """Take away what has no row any more, as after a tenant was removed by hand; returns how many."""
        strays = [Place(UUID(row[0])) for row in await self._driver.fetch(_STRAYS)]
        for place in strays:
            await self._shut(place)
            async with self._driver.transaction():
                await self._drop(place)
        return len(strays)

    async def _make(self, place: Place, verifier: str) -> None:
        login, schema = _quoted(place.login), _quoted(place.schema)
        await self._driver.execute(
            f"create role {login} login connection limit {CONNECTION_LIMIT} password {_literal(verifier)}"
        )
        # Loads the library: before that, its settings are refused to a role that is no superuser.
        await self._driver.execute("select vector_dims('[1]'::halfvec)")
        for name, value in SESSION.items():
            await self._driver.execute(f"alter role {login} set {name} = {_literal(value)}")
        await self._driver.execute(f"alter role {login} set search_path = {schema}, public")
        await self._driver.execute(f"create schema {schema}; grant usage on schema {schema} to {login}")
        await self._driver.execute(f"grant usage, create on schema {schema} to {VIEW_OWNER}")
        database = _quoted(await self._driver.fetchval("select current_database()"))
        await self._driver.execute(f"grant connect on database {database} to {login}")

    async def _show(self, place: Place, row: asyncpg.Record, live: asyncpg.Record) -> None:
        """Another view in the place of the one that is there: dimensions may have changed."""
        name = f"{_quoted(place.schema)}.{_quoted(row['collection'])}"
        values = {
            "view": name,
            "dim": int(live["dim"]),
            "content_key": _literal(row["content_key"]),
            "tenant": _literal(str(row["tenant_id"])),
            "index": _literal(str(live["id"])),
        }
        await self._driver.execute(f"set local role {VIEW_OWNER}; drop view if exists {name}")
        await self._driver.execute(_VIEW.format_map(values))
        await self._driver.execute(f"grant select on {name} to {_quoted(place.login)}; reset role")

    async def _shut(self, place: Place) -> None:
        """Nobody comes in any more; who is in is sent away."""
        if not await self._driver.fetchval("select exists (select from pg_roles where rolname = $1)", place.login):
            return
        login = _quoted(place.login)
        await self._driver.execute(f"alter role {login} nologin")
        # To end another's session takes what the other may do; the login itself goes in a moment.
        await self._driver.execute(f"grant {login} to current_user with inherit true, set false")
        await self._driver.execute(
            "select pg_terminate_backend(pid, 2000) from pg_stat_activity where usename = $1", place.login
        )

    async def _drop(self, place: Place) -> None:
        await self._driver.execute(f"drop schema if exists {_quoted(place.schema)} cascade")
        if await self._driver.fetchval("select exists (select from pg_roles where rolname = $1)", place.login):
            database = _quoted(await self._driver.fetchval("select current_database()"))
            await self._driver.execute(f"revoke connect on database {database} from {_quoted(place.login)}")
            await self._driver.execute(f"drop role {_quoted(place.login)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# The ids stand in it as constants, or the planner would not find the index that was made for these rows; the cast, so
# that the dimension stands in pg_attribute and the index's expression is met.
_VIEW = """
create view {view} as
select e.chunk_id as id, e.embedding::halfvec({dim}) as vec,
       e.metadata || jsonb_build_object({content_key}, c.content) as metadata
  from public.chunk_embedding e
  join public.chunk c on c.tenant_id = e.tenant_id and c.index_id = e.index_id and c.id = e.chunk_id
 where e.tenant_id = {tenant} and e.index_id = {index} and e.dim = {dim}"""
_IS_REVOKED = "select removed_at is not null from publication where tenant_id = $1 and id = $2"
_HOLD = "select * from publication where tenant_id = $1 and id = $2 for update"
_LIVE = "select id, dim from search_index where tenant_id = $1 and kb_id = $2 and state = 'live'"
_SET_SHOWN = """
update publication set index_id = $3, held_back = null, updated_at = now() where tenant_id = $1 and id = $2"""
_REMOVE = "delete from publication where tenant_id = $1 and id = $2"
_DUE = """
select p.tenant_id, p.kb_id, p.id from publication p
 where p.removed_at is not null or exists (
   select from search_index i where i.tenant_id = p.tenant_id and i.kb_id = p.kb_id and i.state = 'live'
      and i.id is distinct from p.index_id)"""
_STRAYS = r"""
select substring(n.nspname from 5) from pg_namespace n
 where n.nspname ~ '^pub_[0-9a-f]{32}$' and pg_get_userbyid(n.nspowner) = current_user
   and not exists (select from publication p where p.id = substring(n.nspname from 5)::uuid)"""
