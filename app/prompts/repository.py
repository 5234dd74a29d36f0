"""Store and read versions of prompts."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.ids import generate_id
from app.prompts.types import PROMPT_NAMES, PromptName, PromptOwner, PromptVersionInfo

ActiveVersions = Mapping[PromptName, int | None]


class PromptRepository:
    """Repository of the prompts of one owner. The caller locks the row of the owner before it adds a version."""

    def __init__(self, session: Session, tenant_id: UUID, owner: PromptOwner) -> None:
        self.session = session
        self._owner_values = {"tenant": tenant_id, "kb": owner.kb_id, "agent": owner.agent_id}

    async def save_versions(self, settings: Mapping[str, Any], *, key_id: UUID | None) -> dict[str, Any]:
        """Store the prompts of new settings as versions. A stored text keeps its number; a new text gets the next.

        Args:
            settings: Settings of the owner with the texts of the prompts.
            key_id: API key of the caller.

        Returns:
            The settings with the version numbers of the prompts.
        """
        numbers = {
            f"{name}_prompt_version": await self._save_version(name, settings[f"{name}_prompt"], key_id)
            for name in PROMPT_NAMES
        }
        return {**settings, **numbers}

    async def _save_version(self, name: PromptName, text: str | None, key_id: UUID | None) -> int | None:
        if text is None:
            return None
        row = await self.session.fetch_row(
            _SAVE, {**self._owner_values, "id": generate_id(), "prompt": name, "text": text, "key": key_id}
        )
        assert row is not None
        number: int = row["number"]
        return number

    async def find(self, name: PromptName, number: int) -> PromptVersionInfo | None:
        """Return a version with ``in_use`` set, or None if the version does not exist."""
        row = await self.session.fetch_row(_FIND, {**self._owner_values, "prompt": name, "number": number})
        return None if row is None else _version_from_row(row, {name: number})

    async def list_versions(
        self, name: PromptName | None, in_use: ActiveVersions, *, after: tuple[datetime, UUID] | None, limit: int
    ) -> Sequence[PromptVersionInfo]:
        """List versions, the newest first.

        Args:
            name: Name of the prompt; None lists the versions of both prompts.
            in_use: Version numbers in use, by prompt.
            after: Creation time and id of the last version of the previous page.
            limit: Maximum number of versions.
        """
        after_time, after_id = after or (None, None)
        values = {**self._owner_values, "prompt": name, "after_time": after_time, "after_id": after_id, "limit": limit}
        return [_version_from_row(row, in_use) for row in await fetch_page(self.session, _PAGE, values)]


def _version_from_row(row: Record, in_use: ActiveVersions) -> PromptVersionInfo:
    return PromptVersionInfo(
        id=row["id"],
        name=row["prompt"],
        number=row["number"],
        text=row["text"],
        created_at=row["created_at"],
        key_id=row["key_id"],
        in_use=in_use.get(row["prompt"]) == row["number"],
    )


# Either :kb or :agent is null. A comparison with null matches no row.
_OWNER_CONDITION = "tenant_id = :tenant and (kb_id = :kb::uuid or agent_id = :agent::text)"
_SAVE = parse_statement(f"""
with known as (
  select number from prompt_version where {_OWNER_CONDITION} and prompt = :prompt::text and text = :text::text),
made as (
  insert into prompt_version (tenant_id, id, kb_id, agent_id, prompt, number, text, key_id)
  select :tenant, :id::uuid, :kb::uuid, :agent::text, :prompt::text, coalesce(max(number), 0) + 1, :text::text,
         :key::uuid
    from prompt_version where {_OWNER_CONDITION} and prompt = :prompt::text having not exists (select from known)
  returning number)
select number from known union all select number from made""")  # noqa: S608
_COLUMNS = "id, prompt, number, text, created_at, key_id"
_FIND = parse_statement(
    f"select {_COLUMNS} from prompt_version where {_OWNER_CONDITION} and prompt = :prompt and number = :number"  # noqa: S608
)
_PAGE = parse_statement(f"""
select {_COLUMNS} from prompt_version
 where {_OWNER_CONDITION} and (:prompt::text is null or prompt = :prompt)
   and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")  # noqa: S608
