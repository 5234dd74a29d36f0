"""From a checked filter to what the database is given: a containment and a jsonpath, bound as typed values."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Self

from app.filters import predicates
from app.filters.parser import EXPIRY, And, Condition, FilterNode, Not, Or, parse_filter
from app.filters.values import Loc, parse_instant

# Each is tried on a sample by every search.
MAX_LOOKUPS = 4
# Weights of a pattern and of any other reference to a value: a pattern reads the whole value.
PATTERN_WEIGHT, REFERENCE_WEIGHT = 10.0, 0.2


@dataclass(frozen=True, slots=True)
class CompiledFilter:
    """A row passes if ``metadata @> contains`` and ``metadata @@ path`` both are true; None asks nothing.

    ``metadata`` is what filterable_metadata made. Bind ``contains`` as jsonb and ``path`` as jsonpath, not as SQL.
    ``lookups`` ask nothing more: each is true of all that pass, and an index finds what it is true of. It has a
    ``path`` of keys, and a scalar ``equal`` or bounds, ``low`` and ``high``: numbers or instants, both included. The
    guard has none, because in its knowledge base it is true of every row.
    """

    contains: dict[str, object] | None = None
    path: str | None = None
    lookups: list[dict[str, object]] | None = None

    @property
    def sql_params(self) -> tuple[str | None, str | None, str | None]:
        """``contains``, ``path`` and ``lookups`` as the driver takes them: jsonb, jsonpath and jsonb."""
        contains, lookups = (None if part is None else json.dumps(part) for part in (self.contains, self.lookups))
        return contains, self.path, lookups

    @property
    def weight(self) -> float:
        """Return the work for one row, in units that say nothing of the row's size; a containment has none."""
        if self.path is None:
            return 0.0
        return PATTERN_WEIGHT * self.path.count(" like_regex ") + REFERENCE_WEIGHT * self.path.count("$")

    @property
    def is_selective(self) -> bool:
        """Whether there may be rows that do not pass."""
        return self.contains is not None or self.path is not None

    def exclude_expired(self, now: datetime) -> Self:
        """The same without what has expired by then; rows from before they were stamped with it count as lasting."""
        moment = parse_instant(now.isoformat())
        assert moment is not None  # of a datetime
        expired = Condition(predicates.format_date_range((EXPIRY,), "<=", moment))
        return replace(
            self, path=f"{self.path or 'strict'} {'&& ' if self.path else ''}{_render(expired, negated=True)}"
        )


def compile_filter(
    expression: Mapping[str, object] | None,
    *,
    loc: Loc = ("filter",),
    enforced_filter: Mapping[str, object] | None = None,
    excluded_names: Set[str] = frozenset(),
) -> CompiledFilter:
    """Check a filter and compile it; none, or an empty one, lets every row pass.

    ``loc`` is where the filter stands in the request. ``enforced_filter`` is a filter of ours that has to hold as well,
    and costs the caller nothing of what a filter may be. ``excluded_names`` are reserved names that the caller's may
    not have, for rows that have none of them: what asks that they be missing would mean all.

    Raises InvalidInputError with the loc of what is wrong or too big.
    """
    has_filter = expression is not None and not (isinstance(expression, Mapping) and not expression)
    parts = _flatten_conjuncts(parse_filter(expression, loc=loc, excluded_names=excluded_names)) if has_filter else []
    lookups = _select_lookups(parts)
    parts += _flatten_conjuncts(parse_filter(enforced_filter, loc=("guard",))) if enforced_filter else []
    contains: dict[str, object] = {}
    remaining = [part for part in parts if not _try_merge_containment(contains, part)]
    path = " && ".join(_render(part, negated=False) for part in remaining)
    return CompiledFilter(contains=contains or None, path=f"strict {path}" if path else None, lookups=lookups or None)


def _flatten_conjuncts(node: FilterNode) -> list[FilterNode]:
    return [leaf for part in node.parts for leaf in _flatten_conjuncts(part)] if isinstance(node, And) else [node]


def _try_merge_containment(contains: dict[str, object], node: FilterNode) -> bool:
    """Add the node to the containment, if it is one and does not contradict what is there already."""
    if not isinstance(node, Condition) or node.contains is None:
        return False
    target, source = contains, node.contains
    while True:
        ((key, value),) = source.items()
        if key not in target:
            target[key] = value
            return True
        present = target[key]
        if not isinstance(value, dict) or not isinstance(present, dict):
            return False
        target, source = present, value


def _select_lookups(conjuncts: Sequence[FilterNode]) -> list[dict[str, object]]:
    """One for each path, no more than a few: equalities before ranges with bounds on both sides, before the others."""
    lookups: dict[tuple[str, ...], dict[str, object]] = {}
    for node in conjuncts:
        if isinstance(node, Condition) and node.lookup is not None:
            lookup = lookups.setdefault(node.lookup.keys, {"path": list(node.lookup.keys)})
            bounds = {"low": node.lookup.low, "high": node.lookup.high, "equal": node.lookup.equal}
            lookup |= {name: bound for name, bound in bounds.items() if bound is not None and name not in lookup}
    return sorted(lookups.values(), key=_estimate_selectivity, reverse=True)[:MAX_LOOKUPS]


def _estimate_selectivity(lookup: Mapping[str, object]) -> int:
    """A guess, by its kind."""
    if "equal" in lookup:
        return 0 if isinstance(lookup["equal"], bool) else 3
    return len(lookup.keys() & {"low", "high"})


def _render(node: FilterNode, *, negated: bool) -> str:
    # Negation goes down to the single conditions: only there is unknown told from false, so that "not" is the exact
    # complement; above them && and || of true and not-true need no care.
    match node:
        case Condition():
            return f"(!({node.path}) || ({node.path}) is unknown)" if negated else f"({node.path})"
        case Not():
            return _render(node.part, negated=not negated)
        case And() | Or():
            operator = " || " if isinstance(node, And) == negated else " && "
            return "(" + operator.join(_render(part, negated=negated) for part in node.parts) + ")"
