"""The report of an evaluation: figures by configuration, as tables and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.cli.evaluation.runner import SearchConfig
from app.evaluations.bootstrap_ci import Bootstrap, ConfidenceInterval, Difference

ScoreMapping = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """The result of one configuration: values by measure and query, and problems."""

    config: SearchConfig
    scores: Mapping[str, ScoreMapping]
    problems: Counter[str]
    warnings: Counter[str]
    unlocated: int
    remarks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class MetricValue:
    """Value of a measure for one setting, with the difference to the baseline."""

    label: str
    interval: ConfidenceInterval
    by_query: ScoreMapping
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Report:
    """Results of all settings on one evaluation set; the first setting is the baseline."""

    results: Sequence[ConfigResult]
    bootstrap: Bootstrap
    counts: Mapping[str, int | None]

    def compute_values(self, result: ConfigResult) -> list[MetricValue]:
        """Return mean, confidence interval and difference to the first configuration of each measure."""
        first = self.results[0]
        return [
            MetricValue(
                label,
                self.bootstrap.compute_interval(list(values.values())),
                values,
                None if result is first else self.bootstrap.compute_difference(values, first.scores[label]),
            )
            for label, values in result.scores.items()
        ]

    def list_failures(self, floors: Mapping[str, float]) -> list[str]:
        """Return a line for each configuration and measure below its minimum."""
        return [
            f"{result.config.name}: {value.label} {value.interval.mean:.4f} is below {floors[value.label]:g}"
            for result in self.results
            for value in self.compute_values(result)
            if value.interval.mean < floors.get(value.label, 0.0)
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object with the values of every query."""
        return {
            **self.counts,
            "resamples": self.bootstrap.resamples,
            "seed": self.bootstrap.seed,
            "settings": [self._config_to_json(result) for result in self.results],
        }

    def _config_to_json(self, result: ConfigResult) -> dict[str, Any]:
        return {
            "name": result.config.name,
            "body": dict(result.config.body),
            "errors": dict(result.problems),
            "warnings": dict(result.warnings),
            "unlocated": result.unlocated,
            "remarks": list(result.remarks),
            "measures": {value.label: _value_to_json(value) for value in self.compute_values(result)},
        }

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of a table for each configuration, with its remarks."""
        shown = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.counts.items() if count)
        yield f"{shown}; 95 % confidence intervals, {self.bootstrap.resamples} resamples"
        baseline = self.results[0].config.name
        for result in self.results:
            yield ""
            yield from _format_table(result.config.name, self.compute_values(result), baseline)
            for count, text in ((result.problems, "failed"), (result.warnings, "warned")):
                yield from (f"  {number} queries {text}: {message}" for message, number in count.most_common(5))
            if result.unlocated:
                yield f"  {result.unlocated} passages were not found in the text of their document"
            yield from (f"  {remark}" for remark in result.remarks)


def _value_to_json(value: MetricValue) -> dict[str, Any]:
    content: dict[str, Any] = {**_interval_to_json(value.interval), "queries": len(value.by_query)}
    if value.difference is not None:
        change = value.difference
        content["difference"] = {**_interval_to_json(change.interval), "better": change.better, "worse": change.worse}
    return {**content, "by_query": dict(value.by_query)}


def _interval_to_json(interval: ConfidenceInterval) -> dict[str, float]:
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def _format_table(name: str, values: Sequence[MetricValue], baseline: str) -> Iterator[str]:
    rows = [[name, "mean", "interval"], *([value.label, *_format_interval(value.interval, "")] for value in values)]
    if values[0].difference is not None:
        rows[0] += [baseline, "difference", "interval", "better/worse/equal"]
        for row, value in zip(rows[1:], values, strict=True):
            row += _format_comparison(value)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = (
            cell.ljust(width) if not number else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "   ".join([first, *others]).rstrip()


def _format_comparison(value: MetricValue) -> list[str]:
    change = value.difference
    if change is None:
        return []
    mean, interval = _format_interval(change.interval, "+")
    equal = len(value.by_query) - change.better - change.worse
    base = value.interval.mean - change.interval.mean
    mark = " *" if change.is_significant else "  "
    return [f"{base:.4f}", mean, interval + mark, f"{change.better}/{change.worse}/{equal}"]


def _format_interval(interval: ConfidenceInterval, sign: str) -> list[str]:
    return [f"{interval.mean:{sign}.4f}", f"{interval.low:{sign}.4f} to {interval.high:{sign}.4f}"]
