"""Plugins by their entry points: built-in names take precedence, and an invalid plugin is skipped with a log event."""

import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from app.plugins import InvalidPlugin, find_entry_points, merge_plugins
from tests.fixtures.plugins import Plugins, plugins

__all__ = ["plugins"]
GROUP = "carrel.things"


def read(entry: EntryPoint, loaded: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    if loaded == "refused":
        raise InvalidPlugin("It is refused.")
    return {loaded: entry.name}


def left_out(caplog: pytest.LogCaptureFixture) -> dict[str, str]:
    """Return the logged reason of each skipped entry point."""
    fields = [getattr(record, "event_fields", {}) for record in caplog.records if record.msg == "plugin.skipped"]
    assert all(one["group"] == GROUP for one in fields)
    return {one["plugin"]: one["reason"] for one in fields}


def test_merge_plugins_without_plugins_returns_built_in_entries() -> None:
    assert find_entry_points(GROUP) == []
    assert merge_plugins(GROUP, {"ours": "x"}, read) == {"ours": "x"}


def test_merge_plugins_adds_valid_entries_and_reserves_names(
    plugins: Plugins, caplog: pytest.LogCaptureFixture
) -> None:
    source = "red, blue, ours, refused = 'red', 'blue', 'ours', 'refused'\n"
    names = ("red", "blue", "ours", "refused", "missing")
    plugins.add("colours", source, things={name: f"colours:{name}" for name in names})
    plugins.add("more_colours", source, things={"another_red": "more_colours:red"})
    plugins.add("broken_colours", "raise RuntimeError('secret')", things={"broken": "broken_colours:red"})
    mine = {"ours": "x"}
    with caplog.at_level(logging.WARNING, logger="app"):
        joined = merge_plugins(GROUP, mine, read)
    assert joined == {"ours": "x", "red": "another_red", "blue": "blue"}
    assert mine == {"ours": "x"}
    assert left_out(caplog) == {
        "broken": "It cannot be loaded.",
        "missing": "It cannot be loaded.",
        "ours": "The name ours is in use. Choose another name.",
        "red": "The name red is in use. Choose another name.",
        "refused": "It is refused.",
    }


def test_merge_plugins_result_is_read_only(plugins: Plugins) -> None:
    plugins.add("shapes", "round = 'round'", things={"round": "shapes:round"})
    joined: Any = merge_plugins(GROUP, {}, read)
    assert list(joined) == ["round"]
    with pytest.raises(TypeError):
        joined["square"] = "x"
