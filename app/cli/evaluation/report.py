"""What an evaluation found: figures by setting, as tables and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.cli.evaluation.asking import Setting
from app.cli.evaluation.intervals import Bootstrap, Difference, Interval

ByQuery = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one setting gave: values by measure and query, and what was not as it should be."""

    setting: Setting
    scores: Mapping[str, ByQuery]
    problems: Counter[str]
    warnings: Counter[str]
    unlocated: int
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure under a setting; the difference is from the baseline."""

    label: str
    interval: Interval
    by_query: ByQuery
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Report:
    """All settings on one set; the first is the baseline of the others."""

    outcomes: Sequence[Outcome]
    bootstrap: Bootstrap
    facts: Mapping[str, int | None]

    def figures(self, outcome: Outcome) -> list[Figure]:
        """One a measure."""
        first = self.outcomes[0]
        return [
            Figure(
                label,
                self.bootstrap.interval(list(values.values())),
                values,
                None if outcome is first else self.bootstrap.difference(values, first.scores[label]),
            )
            for label, values in outcome.scores.items()
        ]

    def below(self, floors: Mapping[str, float]) -> list[str]:
        """A line for each setting and measure that does not reach its floor."""
        return [
            f"{outcome.setting.name}: {figure.label} {figure.interval.mean:.4f} is below {floors[figure.label]:g}"
            for outcome in self.outcomes
            for figure in self.figures(outcome)
            if figure.interval.mean < floors.get(figure.label, 0.0)
        ]

    def as_json(self) -> dict[str, Any]:
        """Everything, value by value."""
        return {
            **self.facts,
            "resamples": self.bootstrap.resamples,
            "seed": self.bootstrap.seed,
            "settings": [self._setting_json(outcome) for outcome in self.outcomes],
        }

    def _setting_json(self, outcome: Outcome) -> dict[str, Any]:
        return {
            "name": outcome.setting.name,
            "body": dict(outcome.setting.body),
            "errors": dict(outcome.problems),
            "warnings": dict(outcome.warnings),
            "unlocated": outcome.unlocated,
            "remarks": list(outcome.remarks),
            "measures": {figure.label: _figure_json(figure) for figure in self.figures(outcome)},
        }

    def lines(self) -> Iterator[str]:
        """A table for each setting, with what to know about it below."""
        shown = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.facts.items() if count)
        yield f"{shown}; intervals of 95 %, {self.bootstrap.resamples} resamples"
        baseline = self.outcomes[0].setting.name
        for outcome in self.outcomes:
            yield ""
            yield from _table(outcome.setting.name, self.figures(outcome), baseline)
            for count, text in ((outcome.problems, "failed"), (outcome.warnings, "warned")):
                yield from (f"  {number} queries {text}: {message}" for message, number in count.most_common(5))
            if outcome.unlocated:
                yield f"  {outcome.unlocated} passages were not found in the text of their document"
            yield from (f"  {remark}" for remark in outcome.remarks)


def _figure_json(figure: Figure) -> dict[str, Any]:
    found: dict[str, Any] = {**_interval_json(figure.interval), "queries": len(figure.by_query)}
    if figure.difference is not None:
        change = figure.difference
        found["difference"] = {**_interval_json(change.interval), "better": change.better, "worse": change.worse}
    return {**found, "by_query": dict(figure.by_query)}


def _interval_json(interval: Interval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def _table(name: str, figures: Sequence[Figure], baseline: str) -> Iterator[str]:
    rows = [[name, "mean", "interval"], *([figure.label, *_cells(figure.interval, "")] for figure in figures)]
    if figures[0].difference is not None:
        rows[0] += [baseline, "difference", "interval", "better/worse/equal"]
        for row, figure in zip(rows[1:], figures, strict=True):
            row += _compared(figure)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "   ".join([first, *rest]).rstrip()


def _compared(figure: Figure) -> list[str]:
    change = figure.difference
    if change is None:
        return []
    mean, interval = _cells(change.interval, "+")
    equal = len(figure.by_query) - change.better - change.worse
    base = figure.interval.mean - change.interval.mean
    mark = " *" if change.is_clear else "  "
    return [f"{base:.4f}", mean, interval + mark, f"{change.better}/{change.worse}/{equal}"]


def _cells(interval: Interval, sign: str) -> list[str]:
    return [f"{interval.mean:{sign}.4f}", f"{interval.low:{sign}.4f} to {interval.high:{sign}.4f}"]
