"""SQL of evaluations and the results of their queries."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from app.db.page_counts import fetch_page
from app.db.session import Session
from app.db.statements import Record, parse_statement
from app.evaluations.golden_set_repository import to_item
from app.evaluations.types import (
    EvaluationSetting,
    EvaluationState,
    GoldenItem,
    ItemOutcome,
    OutcomeChange,
    Position,
    QueryOutcome,
    StoredEvaluation,
)
from app.ids import generate_id
from app.warnings import ServiceWarning, parse_stored_warnings


class EvaluationRepository:
    """Repository of the evaluations of one tenant, in one transaction."""

    def __init__(self, session: Session, tenant_id: UUID) -> None:
        self.session = session
        self.tenant_id = tenant_id

    async def add(self, set_id: UUID, settings: Sequence[EvaluationSetting], total: int) -> StoredEvaluation:
        """Insert a queued evaluation, and return it. The insert waits for other inserts of the tenant."""
        stored = json.dumps([{"body": setting.body, "request": setting.request} for setting in settings])
        row = await self._fetch(_ADD, {"id": generate_id(), "set": set_id, "settings": stored, "total": total})
        assert row is not None
        return row

    async def find(self, evaluation_id: UUID) -> StoredEvaluation | None:
        """Return an evaluation, or None if it does not exist."""
        return await self._fetch(_FIND, {"id": evaluation_id})

    async def list_evaluations(
        self, set_id: UUID | None, *, after: Position | None, limit: int
    ) -> list[StoredEvaluation]:
        """Return a page of the evaluations, newest first, of one golden set or of all."""
        after_time, after_id = after or (None, None)
        values = {"tenant": self.tenant_id, "set": set_id, "after_time": after_time, "after_id": after_id}
        return [_to_evaluation(row) for row in await fetch_page(self.session, _PAGE, {**values, "limit": limit})]

    async def list_active_ids(self) -> list[UUID]:
        """Return the ids of evaluations that wait or run."""
        return [row["id"] for row in await self.session.fetch_rows(_ACTIVE, {"tenant": self.tenant_id})]

    async def find_live_jobs(self, job_ids: Collection[UUID]) -> set[UUID]:
        """Return the jobs that wait or run."""
        values = {"tenant": self.tenant_id, "ids": list(job_ids)}
        return {row["id"] for row in await self.session.fetch_rows(_LIVE_JOBS, values)}

    async def start(self, evaluation_id: UUID) -> StoredEvaluation | None:
        """Mark an active evaluation as running, count its results, and return it; None if it is not active."""
        return await self._fetch(_START, {"id": evaluation_id})

    async def finish(
        self,
        evaluation_id: UUID,
        figures: Sequence[Mapping[str, Any]],
        warnings: Sequence[ServiceWarning],
    ) -> None:
        """Store the figures and warnings of an evaluation, and mark it as done."""
        values = {
            "id": evaluation_id,
            "figures": json.dumps({"measures": figures}),
            "warnings": json.dumps([warning.to_json() for warning in warnings]),
        }
        await self.session.fetch_rows(_FINISH, {"tenant": self.tenant_id, **values})

    async def fail(self, evaluation_ids: Collection[UUID], code: str, message: str) -> None:
        """Mark active evaluations as failed."""
        error = json.dumps({"code": code, "message": message})
        await self.session.fetch_rows(_FAIL, {"tenant": self.tenant_id, "ids": list(evaluation_ids), "error": error})

    async def remove(self, evaluation_id: UUID) -> bool:
        """Delete an evaluation with its results; return whether it existed."""
        return await self.session.fetch_row(_REMOVE, {"tenant": self.tenant_id, "id": evaluation_id}) is not None

    async def list_items(self, set_id: UUID, *, until: datetime, after: UUID | None, limit: int) -> list[GoldenItem]:
        """Return items of a golden set that existed at a time, in the order of their ids."""
        values = {"tenant": self.tenant_id, "set": set_id, "until": until, "after": after, "limit": limit}
        return [to_item(row) for row in await self.session.fetch_rows(_ITEMS, values)]

    async def list_done(self, evaluation_id: UUID, item_ids: Collection[UUID]) -> set[tuple[UUID, int]]:
        """Return the pairs of item and setting that have a result."""
        values = {"tenant": self.tenant_id, "id": evaluation_id, "items": list(item_ids)}
        return {(row["item_id"], row["setting"]) for row in await self.session.fetch_rows(_DONE, values)}

    async def add_outcome(self, evaluation_id: UUID, item_id: UUID, setting: int, outcome: QueryOutcome) -> bool:
        """Store the result of a query; return False if the evaluation was deleted."""
        values = {"tenant": self.tenant_id, "id": evaluation_id}
        if await self.session.fetch_row(_ADVANCE, values) is None:
            return False
        result = {"item": item_id, "setting": setting, "result": json.dumps(outcome.to_json())}
        await self.session.fetch_rows(_ADD_OUTCOME, {**values, **result})
        return True

    async def list_outcomes(
        self, evaluation: StoredEvaluation, *, after: UUID | None = None, limit: int | None = None,
        measure: str | None = None, change: OutcomeChange | None = None,
    ) -> list[ItemOutcome]:  # fmt: skip
        """Return the results of items that all settings have, in the order of the items' ids.

        Args:
            evaluation: The evaluation.
            after: Last item of the page before.
            limit: Maximum number of items; None for all.
            measure: Label of the measure that ``change`` compares.
            change: Only items that got better or worse, or stayed equal, from the first setting to the second.
        """
        values = {
            "tenant": self.tenant_id,
            "id": evaluation.id,
            "set": evaluation.set_id,
            "settings": len(evaluation.settings),
            "after_id": after,
            "measure": measure,
            "change": change,
            "limit": limit,
        }
        return [_to_item_outcome(row) for row in await fetch_page(self.session, _OUTCOMES, values)]

    async def _fetch(self, query: Any, values: Mapping[str, Any]) -> StoredEvaluation | None:
        row = await self.session.fetch_row(query, {"tenant": self.tenant_id, **values})
        return None if row is None else _to_evaluation(row)


def _to_evaluation(row: Record) -> StoredEvaluation:
    return StoredEvaluation(
        id=row["id"],
        set_id=row["set_id"],
        settings=[EvaluationSetting(**stored) for stored in row["settings"]],
        state=EvaluationState(row["state"]),
        done=row["done"],
        total=row["total"],
        figures=None if row["figures"] is None else row["figures"]["measures"],
        warnings=parse_stored_warnings(row["warnings"]),
        error=row["error"],
        created_at=row["created_at"],
        finished_at=row["finished_at"],
    )


def _to_item_outcome(row: Record) -> ItemOutcome:
    item = None if row["id"] is None else to_item(row)
    return ItemOutcome(row["item_id"], item, [QueryOutcome.from_json(stored) for stored in row["results"]])


_COLUMNS = "id, set_id, settings, state, done, total, figures, warnings, error, created_at, finished_at"
_ADD = parse_statement(f"""
insert into evaluation (tenant_id, id, set_id, settings, total)
values (:tenant, :id, :set, :settings::jsonb, :total) returning {_COLUMNS}""")  # noqa: S608
_FIND = parse_statement(f"select {_COLUMNS} from evaluation where tenant_id = :tenant and id = :id")  # noqa: S608
_PAGE = parse_statement(f"""
select {_COLUMNS} from evaluation
 where tenant_id = :tenant and (:set::uuid is null or set_id = :set)
   and (:after_time::timestamptz is null or (created_at, id) < (:after_time, :after_id::uuid))
 order by created_at desc, id desc limit :limit""")  # noqa: S608
_ACTIVE = parse_statement("select id from evaluation where tenant_id = :tenant and state in ('queued', 'running')")
_LIVE_JOBS = parse_statement(
    "select id from job where tenant_id = :tenant and id = any(:ids::uuid[]) and state <> 'dead'"
)
_START = parse_statement(f"""
update evaluation e set state = 'running',
   done = (select count(*) from evaluation_result r where r.tenant_id = e.tenant_id and r.evaluation_id = e.id)
 where tenant_id = :tenant and id = :id and state in ('queued', 'running') returning {_COLUMNS}""")  # noqa: S608
_FINISH = parse_statement("""
update evaluation set state = 'done', figures = :figures::jsonb, warnings = :warnings::jsonb, finished_at = now(),
   total = done
 where tenant_id = :tenant and id = :id and state = 'running'""")
_FAIL = parse_statement("""
update evaluation set state = 'failed', error = :error::jsonb, finished_at = now()
 where tenant_id = :tenant and id = any(:ids::uuid[]) and state in ('queued', 'running')""")
_REMOVE = parse_statement("delete from evaluation where tenant_id = :tenant and id = :id returning 1")
_ITEMS = parse_statement("""
select id, query, messages, digest, relevant, created_at, updated_at from golden_item
 where tenant_id = :tenant and set_id = :set and created_at <= :until and (:after::uuid is null or id > :after)
 order by id limit :limit""")
_DONE = parse_statement("""
select item_id, setting from evaluation_result
 where tenant_id = :tenant and evaluation_id = :id and item_id = any(:items::uuid[])""")
_ADVANCE = parse_statement("""
update evaluation set done = done + 1 where tenant_id = :tenant and id = :id and state = 'running' returning 1""")
_ADD_OUTCOME = parse_statement("""
insert into evaluation_result (tenant_id, evaluation_id, item_id, setting, result)
values (:tenant, :id, :item, :setting, :result::jsonb) on conflict do nothing""")
_OUTCOMES = parse_statement("""
with compared as (
  select r.item_id, jsonb_agg(r.result order by r.setting) as results from evaluation_result r
   where r.tenant_id = :tenant and r.evaluation_id = :id and (:after_id::uuid is null or r.item_id > :after_id)
   group by r.item_id having count(*) = :settings
), differences as (
  select item_id, results, sign((results -> 1 -> 'scores' ->> :measure::text)::float8
                                - (results -> 0 -> 'scores' ->> :measure)::float8) as gain from compared
)
select d.item_id, d.results, i.id, i.query, i.messages, i.digest, i.relevant, i.created_at, i.updated_at
  from differences d
  left join golden_item i on i.tenant_id = :tenant and i.set_id = :set and i.id = d.item_id
 where :change::text is null or d.gain = case :change when 'better' then 1 when 'worse' then -1 else 0 end
 order by d.item_id limit :limit""")
