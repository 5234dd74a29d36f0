"""Pairs of address and key: a key is sent only to the address from the same source."""

import json
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import pytest

from app.cli.endpoint import ServiceNotConfigured, resolve_endpoint
from app.cli.runtime_state import Credentials

PLACES = ["option", "environment", "file", "stored"]
ONE, OTHER = "http://one.example", "http://other.example"


@dataclass
class Places:
    """Sets address and key in each source."""

    directory: Path
    monkeypatch: pytest.MonkeyPatch
    given: dict[str, dict[str, str]] = field(default_factory=dict)

    def set(self, place: str, **values: str) -> None:
        self.given.setdefault(place, {}).update(values)

    def find(self) -> Credentials:
        option = self.given.get("option", {})
        for name, value in self._variables("environment").items():
            self.monkeypatch.setenv(name, value)
        if file := self._variables("file"):
            (self.directory / ".env").write_text("".join(f"{name}={value}\n" for name, value in file.items()))
        if stored := self.given.get("stored"):
            (self.directory / ".carrel").mkdir()
            kept = {"url": stored.get("url", ONE), "api_key": stored.get("key", "stored-key")}
            (self.directory / ".carrel/credentials.json").write_text(json.dumps(kept))
        return resolve_endpoint(option.get("url"), option.get("key"))

    def _variables(self, place: str) -> dict[str, str]:
        names = {"url": "CARREL_URL", "key": "CARREL_API_KEY"}
        return {names[name]: value for name, value in self.given.get(place, {}).items()}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    for name in ("CARREL_URL", "CARREL_API_KEY", "CARREL_DATA_DIR", "CARREL_ENV_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Places(tmp_path, monkeypatch)


@pytest.mark.parametrize("place", PLACES)
def test_connection_key_of_same_source_as_address_is_used(places: Places, place: str) -> None:
    places.set(place, url=ONE, key="a-key")
    assert places.find() == Credentials(ONE, "a-key")


@pytest.mark.parametrize(("of_key", "of_address"), list(permutations(PLACES, 2)))
def test_connection_key_and_address_of_different_sources_are_not_combined(
    places: Places, of_key: str, of_address: str
) -> None:
    """Every pair of sources. A stored file has both values, so one of them differs."""
    places.set(of_key, key="secret-key")
    places.set(of_address, url=OTHER)
    if "stored" not in (of_key, of_address):
        places.set("stored", url=ONE)
    if of_key == "stored":
        places.set("stored", url=ONE)
    with pytest.raises(ServiceNotConfigured) as refused:
        places.find()
    assert "secret-key" not in refused.value.message
    assert "--url" in refused.value.message


@pytest.mark.parametrize(("first", "second"), [("option", "environment"), ("environment", "file"), ("file", "stored")])
def test_connection_first_source_wins_as_a_whole(places: Places, first: str, second: str) -> None:
    places.set(first, url=ONE, key="first-key")
    places.set(second, url=OTHER, key="second-key")
    assert places.find() == Credentials(ONE, "first-key")


@pytest.mark.parametrize("place", PLACES[1:])
def test_connection_repeated_address_uses_key_of_its_source(places: Places, place: str) -> None:
    places.set("option", url=f"{ONE}/")
    places.set(place, url=ONE, key="its-key")
    assert places.find() == Credentials(ONE, "its-key")


def test_connection_of_a_file_that_the_environment_names_counts_as_the_environment(places: Places) -> None:
    places.set("environment", key="a-key")
    places.set("file", url=ONE)
    places.monkeypatch.setenv("CARREL_ENV_FILE", ".env")
    assert places.find() == Credentials(ONE, "a-key")


def test_connection_file_cannot_read_the_environment(places: Places) -> None:
    places.monkeypatch.setenv("SOMEBODYS_SECRET", "hidden")
    places.set("file", url="http://evil.example/${SOMEBODYS_SECRET}", key="k")
    assert "hidden" not in places.find().url


def test_connection_without_sources_names_options(places: Places) -> None:
    with pytest.raises(ServiceNotConfigured, match="give --url and --key"):
        places.find()


@pytest.mark.parametrize("url", ["ftp://x", "http://x\r\ny: z", "http://a b", "http://x\x1b[2J"])
def test_connection_invalid_address_names_its_variable(places: Places, url: str) -> None:
    places.set("environment", url=url, key="k")
    with pytest.raises(ServiceNotConfigured, match="CARREL_URL must be an http or https URL"):
        places.find()
