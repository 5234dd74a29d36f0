"""The configured reranker, and settings without one."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from app.inference.onnx_directory import LocalModelRefused
from app.inference.rerank.factory import create_reranker
from app.settings import RerankSettings
from harness.protocol_servers.rerank import RerankServer


def settings(**given: Any) -> RerankSettings:
    return RerankSettings(**{f"CARREL_RERANK_{name.upper()}": value for name, value in given.items()})


def test_create_reranker_without_settings_returns_none() -> None:
    assert not settings().is_configured
    assert create_reranker(settings()) is None


@pytest.mark.parametrize("api", [None, "tei", "jina", "vllm"])
async def test_create_reranker_with_endpoint_applies_settings(api: str | None) -> None:
    with RerankServer("cohere" if api is None else api, api_key="a-key") as server:  # type: ignore[arg-type]
        given = {"url": server.url, "api_key": "a-key", "max_documents": 2, "max_characters": 100}
        configured = settings(**given, **({"api": api} if api else {}))
        assert configured.is_configured
        reranker = create_reranker(configured)
        assert reranker is not None
        found = await reranker.rerank("lamp", ["x" * 200, "lamp", "desk"], top_n=3, timeout_seconds=30)
        await reranker.close()
    assert found == {0: 0.0, 1: 1.0, 2: 0.0}
    assert [len(asked.texts) for asked in server.received] == [2, 1]
    assert len(server.received[0].texts[0]) == 100


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"model": "m"}, "CARREL_RERANK_MODEL needs CARREL_RERANK_URL"),
        ({"api_key": "hidden"}, "CARREL_RERANK_API_KEY needs CARREL_RERANK_URL"),
        ({"max_documents": 5}, "CARREL_RERANK_MAX_DOCUMENTS needs CARREL_RERANK_URL"),
        ({"url": "tei:8080"}, "http or https"),
        ({"url": "http://tei", "api": "guess"}, "'tei', 'cohere', 'jina' or 'vllm'"),
        ({"url": "http://tei", "max_documents": 0}, "CARREL_RERANK_MAX_DOCUMENTS"),
        ({"max_characters": 10}, "CARREL_RERANK_MAX_CHARACTERS"),
        ({"local": "m", "url": "http://tei"}, "CARREL_RERANK_LOCAL and CARREL_RERANK_URL exclude each other"),
        ({"local": "m", "provider": "mine"}, "CARREL_RERANK_LOCAL and CARREL_RERANK_PROVIDER exclude each other"),
        ({"local": "m", "model": "m"}, "CARREL_RERANK_MODEL needs CARREL_RERANK_URL"),
        ({"local": "m", "api_key": "hidden"}, "CARREL_RERANK_API_KEY needs CARREL_RERANK_URL"),
        ({"local": "m", "max_documents": 5}, "CARREL_RERANK_MAX_DOCUMENTS needs CARREL_RERANK_URL"),
        ({"local": "m", "max_tokens": 31}, "CARREL_RERANK_MAX_TOKENS"),
        ({"local": "m", "max_tokens": 8193}, "CARREL_RERANK_MAX_TOKENS"),
        ({"max_tokens": 256}, "CARREL_RERANK_MAX_TOKENS needs CARREL_RERANK_LOCAL"),
        ({"url": "http://tei", "max_tokens": 256}, "CARREL_RERANK_MAX_TOKENS needs CARREL_RERANK_LOCAL"),
    ],
)
def test_rerank_settings_invalid_values_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(**given)


def test_rerank_settings_hide_key() -> None:
    configured = settings(url="http://tei", api_key="hidden")
    assert "hidden" not in f"{configured!r} {configured.model_dump()} {configured.model_dump_json()}"


def test_rerank_settings_of_plugin_accept_model_and_key() -> None:
    assert settings(provider="mine", model="m", api_key="k").is_configured


@pytest.mark.parametrize("path", ["models/tiny", "./models/tiny", "../here/models/tiny", "~/models/tiny"])
def test_rerank_settings_local_path_is_absolute(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "here"))
    configured = settings(local=path, max_tokens=256)
    monkeypatch.chdir("/")
    assert configured.is_configured
    assert configured.local is not None
    assert configured.local.is_absolute()
    assert configured.local.resolve() == tmp_path / "here" / "models" / "tiny"


def test_create_reranker_missing_local_directory_names_setting(tmp_path: Path) -> None:
    with pytest.raises(LocalModelRefused) as refused:
        create_reranker(settings(local=str(tmp_path / "none")))
    assert refused.value.message.startswith(f"CARREL_RERANK_LOCAL: {tmp_path}/none is neither")
