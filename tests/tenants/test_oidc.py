"""The library that reads tokens: required if an issuer is configured, and otherwise unused."""

import subprocess
import sys

import pytest

from app.settings import IdentitySettings
from app.tenants.auth.factory import create_token_reader
from app.tenants.types import OidcExtraMissing

NAMED = {"CARREL_OIDC_ISSUER": "https://login.example", "CARREL_OIDC_AUDIENCE": "carrel"}


def test_oidc_library_is_not_imported_without_issuer() -> None:
    code = "import sys, app.main, app.bootstrap; print({'jwt', 'cryptography'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout == "set()\n"
    assert create_token_reader(IdentitySettings()) is None


def test_oidc_missing_library_stops_start_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "app.tenants.auth.oidc", None)
    with pytest.raises(OidcExtraMissing, match=r"carrel\[oidc\]"):
        create_token_reader(IdentitySettings.model_validate(NAMED))
