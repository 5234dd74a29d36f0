"""Checkpoints of unfinished ingestions (vectors by the hash of their text), and the usage of embedding models."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from pgvector import HalfVector

from app.db.session import Session
from app.db.statements import parse_statement
from app.inference.embedding import Vectors
from app.quotas.types import NO_KEY


class CheckpointRepository:
    """Repository of the checkpoints and the embedding usage of one tenant."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def find(self, identity: UUID, hashes: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Find the checkpointed vectors of texts, from all documents of the tenant.

        Args:
            identity: Key of the embedding model from ``derive_checkpoint_key``.
            hashes: SHA-256 hashes of the texts.

        Returns:
            The vectors that exist, by hash.
        """
        values = {"t": self.tenant_id, "identity": identity, "hashes": list(set(hashes))}
        rows = await self.session.fetch_rows(_FIND, values)
        return {row["content_hash"]: row["embedding"].to_numpy() for row in rows}

    async def add(
        self, identity: UUID, document_id: UUID, vectors: Mapping[bytes, Vectors], *, version: int | None
    ) -> None:
        """Store vectors as checkpoints of a document, so that a later attempt need not embed their texts again.

        Nothing is stored if the version is no longer the newest one, or is ready or failed.

        Args:
            identity: Key of the embedding model from ``derive_checkpoint_key``.
            document_id: The document that the vectors were made for.
            vectors: Vectors by the SHA-256 hash of their text.
            version: Version that is being ingested; its end deletes the checkpoints. None for a reindex: the
                checkpoints then stay until the document is in the new index, or the sweeper finds them too old.
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
        """Add inputs and tokens to today's usage (UTC) of a model."""
        values = {"t": self.tenant_id, "model": model, "inputs": inputs, "tokens": tokens}
        await self.session.fetch_rows(_RECORD_USAGE, values)

    async def record_embedding_usage(
        self, model: str, *, inputs: int, tokens: int, key_id: UUID = NO_KEY, chunks: int = 0
    ) -> None:
        """Add to today's usage (UTC) of an embedding model, and to today's usage of an API key.

        Args:
            model: Name of the model.
            inputs: Number of texts that were embedded.
            tokens: Number of their tokens.
            key_id: API key of the upload, whose quota the usage counts against.
            chunks: Number of chunks that the same transaction stores.
        """
        values = {"t": self.tenant_id, "model": model, "inputs": inputs, "tokens": tokens}
        await self.session.fetch_rows(_RECORD_EMBEDDING_USAGE, {**values, "key": key_id, "chunks": chunks})


_FIND = parse_statement("""
select distinct on (content_hash) content_hash, embedding from embedding_checkpoint
 where tenant_id = :t and identity = :identity and content_hash = any(:hashes::bytea[])""")
# The row lock delays a concurrent deletion of the document and a concurrent end of the version, which deletes all
# checkpoints. An insert after that end finds no row of the document, and adds nothing.
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
