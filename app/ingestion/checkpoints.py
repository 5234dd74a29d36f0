"""What is kept of an ingestion that is under way: vectors that were paid for, and what they cost."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from pgvector import HalfVector

from app.db.session import Session
from app.db.statements import parse_statement
from app.inference.embedding import Vectors
from app.quotas.types import NO_KEY


class CheckpointRepository:
    """Reads and writes in one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find(self, identity: UUID, hashes: Sequence[bytes]) -> dict[bytes, Vectors]:
        """The vectors that any document of the tenant has for these texts."""
        values = {"t": self.tenant_id, "identity": identity, "hashes": list(set(hashes))}
        rows = await self.session.fetch_rows(_FIND, values)
        return {row["content_hash"]: row["embedding"].to_numpy() for row in rows}

    async def add(
        self, identity: UUID, document_id: UUID, vectors: Mapping[bytes, Vectors], *, version: int | None
    ) -> None:
        """Keep vectors until the document's ``version`` is whole; nothing where it is no longer waited for.

        Without a version they are kept for as long as the document is there, or until they are forgotten.
        """
        values = {
            "t": self.tenant_id,
            "identity": identity,
            "d": document_id,
            "v": version,
            "hashes": list(vectors),
            "vectors": [HalfVector(vector) for vector in vectors.values()],
        }
        await self.session.fetch_rows(_ADD, values)

    async def record_usage(self, model: str, *, inputs: int, tokens: int) -> None:
        """Add to the day's costs (UTC)."""
        values = {"t": self.tenant_id, "model": model, "inputs": inputs, "tokens": tokens}
        await self.session.fetch_rows(_RECORD_USAGE, values)

    async def record_embedding_usage(
        self, model: str, *, inputs: int, tokens: int, key_id: UUID = NO_KEY, chunks: int = 0
    ) -> None:
        """The same, and to what the key has used, by whose upload it came; ``chunks`` are stored now."""
        values = {"t": self.tenant_id, "model": model, "inputs": inputs, "tokens": tokens}
        await self.session.fetch_rows(_RECORD_EMBEDDING_USAGE, {**values, "key": key_id, "chunks": chunks})


_FIND = parse_statement("""
select distinct on (content_hash) content_hash, embedding from embedding_checkpoint
 where tenant_id = :t and identity = :identity and content_hash = any(:hashes::bytea[])""")
# The row lock keeps a deletion waiting for a moment, and whoever makes the version whole, which removes them all; who
# comes after that adds nothing.
_ADD = parse_statement("""
insert into embedding_checkpoint (tenant_id, identity, document_id, content_hash, embedding)
select d.tenant_id, :identity::uuid, d.id, u.*
  from (select tenant_id, id from document where tenant_id = :t and id = :d
           and (:v::int is null or version = :v and status not in ('ready', 'failed')) for key share) d,
       unnest(:hashes::bytea[], :vectors::halfvec[]) u
on conflict do nothing""")
_INSERT_USAGE = """
insert into embedding_usage (tenant_id, day, model, inputs, tokens)
select :t::uuid, (now() at time zone 'utc')::date, :model::text, :inputs::bigint, :tokens::bigint
 where :inputs::bigint > 0 or :tokens::bigint > 0
on conflict (tenant_id, day, model) do update
   set inputs = embedding_usage.inputs + excluded.inputs, tokens = embedding_usage.tokens + excluded.tokens"""
_RECORD_USAGE = parse_statement(_INSERT_USAGE)
_RECORD_EMBEDDING_USAGE = parse_statement(f"""
with ledger as ({_INSERT_USAGE}
)
insert into usage_day as d (tenant_id, day, key_id, chunks, embedding_tokens)
values (:t::uuid, (now() at time zone 'utc')::date, :key, :chunks::bigint, :tokens::bigint)
on conflict (tenant_id, day, key_id) do update
   set chunks = d.chunks + excluded.chunks, embedding_tokens = d.embedding_tokens + excluded.embedding_tokens""")  # noqa: S608  (constants)
