"""The warnings of a search: each pair of code and message once, and plain strings of plugins with a code."""

from typing import Any

from app.retrieval.search_run import SearchRun
from app.warnings import ServiceWarning, WarningCode

FIRST = ServiceWarning(WarningCode.RETRIEVER_UNAVAILABLE, "One.")
SECOND = ServiceWarning(WarningCode.RETRIEVER_UNAVAILABLE, "Two.")


def test_warn_adds_each_pair_of_code_and_message_once() -> None:
    search_run = SearchRun.from_timeout(1)
    for warning in (FIRST, SECOND, ServiceWarning("retriever_unavailable", "One."), ServiceWarning("other", "One.")):
        search_run.warn(warning)
    assert search_run.warnings == [FIRST, SECOND, ServiceWarning("other", "One.")]
    assert search_run.notices == []


def test_add_notice_plain_string_gets_the_code_of_plugins() -> None:
    search_run = SearchRun.from_timeout(1)
    plain: Any = "A plain string."
    for notice in (plain, plain, FIRST):
        search_run.add_notice(notice)
    assert search_run.notices == [ServiceWarning("plugin_warning", "A plain string."), FIRST]
