"""Tokens of an identity provider: permissions, and every reason why a token is invalid."""

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import jwt
import pytest

from app.db.models.base import SYSTEM_TENANT
from app.ids import encode_id, generate_id
from harness.databases import DatabaseFactory
from harness.protocol_servers.token_issuer import AUDIENCE, SigningKey, TokenIssuer
from harness.running_service import Service, Tenant, build_settings, run_service
from tests.api.problems import assert_problem

Temporary = pytest.TempPathFactory
Sign = Callable[..., httpx2.Client]
DOCUMENTS = "/v1/knowledge-bases/default/documents"
# Created once, because an RSA key takes long to generate.
KEYS = {
    algorithm: SigningKey.generate(algorithm, algorithm) for algorithm in ("RS256", "PS256", "ES256", "ES384", "EdDSA")
}
STRANGER = SigningKey.generate("ES256")


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer(keys=list(KEYS.values())) as running:
        yield running


def identity(issuer: TokenIssuer, **more: str) -> dict[str, dict[str, Any]]:
    named = {"ISSUER": issuer.url, "AUDIENCE": AUDIENCE, **more}
    return {"identity": {f"CARREL_OIDC_{name}": value for name, value in named.items()}}


@pytest.fixture(scope="module")
def trusting(
    make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer
) -> Iterator[Service]:
    settings = build_settings(tmp_path_factory.mktemp("trusting"), **identity(issuer))
    with run_service(settings, make_database()) as running:
        yield running


@pytest.fixture
def tenant(trusting: Service) -> Tenant:
    return trusting.create_tenant("of tokens")


def claims_for(issuer: TokenIssuer, tenant: Tenant, role: str = "admin", **claims: Any) -> dict[str, Any]:
    return issuer.build_claims(**{"carrel_tenant": tenant.id, "carrel_role": role, **claims})


@pytest.fixture
def signed(trusting: Service, issuer: TokenIssuer, tenant: Tenant) -> Sign:
    def make(role: str = "admin", **claims: Any) -> httpx2.Client:
        return trusting.create_client(KEYS["ES256"].sign(claims_for(issuer, tenant, role, **claims)))

    return make


def part(data: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()


@pytest.mark.capability("token-oidc")
@pytest.mark.parametrize("algorithm", KEYS)
def test_token_authenticates_with_its_role(
    trusting: Service, issuer: TokenIssuer, tenant: Tenant, algorithm: str
) -> None:
    client = trusting.create_client(KEYS[algorithm].sign(claims_for(issuer, tenant, "reader", sub="ada@example.com")))
    me = client.get("/v1/me").json()
    assert me["tenant"] == {"id": tenant.id, "name": "of tokens"}
    assert me["key"] == {
        "id": None, "name": "ada@example.com", "role": "reader", "knowledge_bases": None, "user_id": None
    }  # fmt: skip
    assert client.get(DOCUMENTS).json()["items"] == []
    assert_problem(client.post(DOCUMENTS, json={"text": "x"}), 403, "forbidden")


def test_token_roles_equal_key_roles(signed: Sign, tenant: Tenant) -> None:
    assert signed("writer").post(DOCUMENTS, json={"text": "A token's text."}).status_code == 202
    assert_problem(signed("writer").get("/v1/api-keys"), 403, "forbidden")
    assert signed("admin").post("/v1/api-keys", json={"name": "k", "role": "reader"}).status_code == 201
    assert_problem(signed("admin").post("/v1/tenants", json={"name": "mine"}), 403, "forbidden")


def test_token_is_not_listed_as_key(signed: Sign, tenant: Tenant) -> None:
    client = signed()
    names = [key["name"] for key in client.get("/v1/api-keys").json()["items"]]
    assert names == ["first key"]


def test_token_idempotency_responses_are_separate_per_subject(signed: Sign) -> None:
    headers = {"Idempotency-Key": "same"}
    first = signed(sub="ada").post(DOCUMENTS, json={"text": "Ada's."}, headers=headers).json()["id"]
    assert signed(sub="ada").post(DOCUMENTS, json={"text": "Ada's."}, headers=headers).json()["id"] == first
    assert signed(sub="bob").post(DOCUMENTS, json={"text": "Bob's."}, headers=headers).json()["id"] != first


MAIN = KEYS["ES256"]
Bad = Callable[[TokenIssuer, Tenant], str]


def with_claims(**claims: Any) -> Bad:
    return lambda issuer, tenant: MAIN.sign(claims_for(issuer, tenant, **claims))


def none_at_all(issuer: TokenIssuer, tenant: Tenant) -> str:
    return f"{part({'alg': 'none', 'typ': 'JWT', 'kid': 'ES256'})}.{part(claims_for(issuer, tenant))}."


def by_secret(key: SigningKey) -> Bad:
    """Return a token that is signed with the public key as a shared secret."""

    def make(issuer: TokenIssuer, tenant: Tenant) -> str:
        text = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': key.kid})}.{part(claims_for(issuer, tenant))}"
        mac = hmac.new(key.public_pem, text.encode(), hashlib.sha256).digest()
        return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    return make


def altered(issuer: TokenIssuer, tenant: Tenant) -> str:
    head, _, signature = MAIN.sign(claims_for(issuer, tenant, "reader")).split(".")
    return f"{head}.{part(claims_for(issuer, tenant, 'admin'))}.{signature}"


def oversized(issuer: TokenIssuer, tenant: Tenant) -> str:
    return MAIN.sign(claims_for(issuer, tenant, padding="x" * 8192))


def with_head(head: Any) -> Bad:
    return lambda issuer, tenant: f"{part(head)}.{part(claims_for(issuer, tenant))}.{'A' * 86}"


def without_kid(issuer: TokenIssuer, tenant: Tenant) -> str:
    return jwt.encode(claims_for(issuer, tenant), MAIN.private_key, "ES256")


def under_another_algorithm(issuer: TokenIssuer, tenant: Tenant) -> str:
    """Return a token with the issuer's key, but with another algorithm."""
    return jwt.encode(claims_for(issuer, tenant), KEYS["RS256"].private_key, "RS512", {"kid": "RS256"})


LONG_AGO, SOON = int(time.time()) - 3600, int(time.time()) + 3600
BAD: dict[str, Bad] = {
    "none": none_at_all,
    "HS256 with an RSA public key": by_secret(KEYS["RS256"]),
    "HS256 with an EC public key": by_secret(MAIN),
    "a stranger's key under our kid": lambda issuer, tenant: STRANGER.sign(claims_for(issuer, tenant)),
    "unknown kid": lambda issuer, tenant: SigningKey("nobody", "ES256", MAIN.private_key).sign(
        claims_for(issuer, tenant)
    ),
    "no kid": without_kid,
    "kid of another type": with_head({"alg": "ES256", "kid": 5}),
    "another key's kid": lambda issuer, tenant: SigningKey("ES384", "ES256", MAIN.private_key).sign(
        claims_for(issuer, tenant)
    ),
    "another algorithm": under_another_algorithm,
    "crit": lambda issuer, tenant: MAIN.sign(claims_for(issuer, tenant), crit=["exp"]),
    "its own key": lambda issuer, tenant: SigningKey("inside", "ES256", STRANGER.private_key).sign(
        claims_for(issuer, tenant), jwk=STRANGER.public_jwk
    ),
    "altered": altered,
    "expired": with_claims(exp=LONG_AGO),
    "no end": with_claims(exp=None),
    "not yet": with_claims(nbf=SOON),
    "issued in the future": with_claims(iat=SOON),
    "end of another type": with_claims(exp="soon"),
    "another audience": with_claims(aud="another"),
    "audience in part": with_claims(aud=AUDIENCE[:-1]),
    "no audience": with_claims(aud=None),
    "another issuer": with_claims(iss="https://another.example"),
    "no issuer": with_claims(iss=None),
    "no subject": with_claims(sub=None),
    "empty subject": with_claims(sub=""),
    "long subject": with_claims(sub="x" * 257),
    "subject with NUL": with_claims(sub="a\0b"),
    "subject of two lines": with_claims(sub="a\nb"),
    "subject with half a pair": with_claims(sub="\ud800"),
    "no tenant": with_claims(carrel_tenant=None),
    "tenant of another type": with_claims(carrel_tenant=["ten"]),
    "unknown tenant": with_claims(carrel_tenant=encode_id("ten", generate_id())),
    "the system's tenant": with_claims(carrel_tenant=encode_id("ten", SYSTEM_TENANT)),
    "tenant by name": with_claims(carrel_tenant="of tokens"),
    "no role": with_claims(carrel_role=None),
    "operator": with_claims(carrel_role="operator"),
    "unknown role": with_claims(carrel_role="ADMIN"),
    "roles": with_claims(carrel_role=["admin"]),
    "oversized": oversized,
    "nothing": lambda issuer, tenant: "..",
    "words": lambda issuer, tenant: "a.b.c",
    "deep head": lambda issuer, tenant: f"{base64.urlsafe_b64encode(b'[' * 3000).decode()}.e30.AAAA",
    "two parts": lambda issuer, tenant: ".".join(MAIN.sign(claims_for(issuer, tenant)).split(".")[:2]),
    "five parts": lambda issuer, tenant: MAIN.sign(claims_for(issuer, tenant)) + ".a.b",
    "head that is a list": with_head([]),
}


@pytest.fixture(scope="module")
def home(trusting: Service) -> Tenant:
    """Tenant of all refused tokens."""
    return trusting.create_tenant("of tokens")


@pytest.fixture(scope="module")
def keyless(trusting: Service) -> httpx2.Client:
    return trusting.create_client()


@pytest.mark.parametrize("name", BAD)
def test_invalid_token_is_401(keyless: httpx2.Client, issuer: TokenIssuer, home: Tenant, name: str) -> None:
    headers = {"Authorization": f"Bearer {BAD[name](issuer, home)}"}
    found = assert_problem(keyless.get("/v1/me", headers=headers), 401, "unauthorized")
    assert found["detail"] == "The API key is not valid. Send a valid API key."  # the reply gives no reason


def test_invalid_token_log_has_reason_and_no_token(
    trusting: Service, issuer: TokenIssuer, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    token = MAIN.sign(claims_for(issuer, tenant, exp=LONG_AGO, sub="someone-in-particular"))
    with caplog.at_level(logging.INFO):
        assert_problem(trusting.create_client(token).get("/v1/me"), 401)
    (record,) = [record for record in caplog.records if record.getMessage() == "token.rejected"]
    told = str(vars(record))
    assert "ExpiredSignatureError" in told
    assert not [word for word in (*token.split("."), tenant.id, "someone-in-particular") if word in told]


def test_valid_token_variants_are_accepted(trusting: Service, issuer: TokenIssuer, tenant: Tenant) -> None:
    for claims in ({}, {"aud": ["another", AUDIENCE]}, {"nbf": None, "iat": None}, {"exp": int(time.time()) - 10}):
        token = MAIN.sign(claims_for(issuer, tenant, **claims))
        assert trusting.create_client(token).get("/v1/me").status_code == 200, claims


def test_token_of_deleted_tenant_is_401_immediately(trusting: Service, signed: Sign, tenant: Tenant) -> None:
    client = signed()
    assert client.get("/v1/me").status_code == 200
    trusting.operator.delete(f"/v1/tenants/{tenant.id}").raise_for_status()
    assert_problem(client.get("/v1/me"), 401, "unauthorized")


def test_token_of_renamed_tenant_shows_new_name_immediately(trusting: Service, signed: Sign, tenant: Tenant) -> None:
    client = signed()
    client.get("/v1/me").raise_for_status()
    trusting.operator.patch(f"/v1/tenants/{tenant.id}", json={"name": "renamed"}).raise_for_status()
    assert client.get("/v1/me").json()["tenant"]["name"] == "renamed"


def test_token_of_one_tenant_does_not_reach_another(trusting: Service, signed: Sign) -> None:
    other = trusting.create_tenant("another")
    document = other.add_text("Another's text.")["id"]
    assert_problem(signed().get(f"{DOCUMENTS}/{document}"), 404, "document_not_found")
    assert signed().post("/v1/search", json={"query": "another's text"}).json()["results"] == []


def test_token_without_configured_issuer_is_401(service: Service, issuer: TokenIssuer) -> None:
    other = service.create_tenant("without tokens")
    assert_problem(service.create_client(MAIN.sign(claims_for(issuer, other))).get("/v1/me"), 401, "unauthorized")


@pytest.fixture(scope="module")
def narrowing(
    make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer
) -> Iterator[Service]:
    """Service whose tokens name user and knowledge bases, and whose claims of tenant and role have other names."""
    claims = {
        "USER_CLAIM": "sub",
        "KNOWLEDGE_BASES_CLAIM": "bases",
        "TENANT_CLAIM": "https://c.example/t",
        "ROLE_CLAIM": "r",
    }
    jwks = {"JWKS_URL": f"{issuer.url}/keys"}
    settings = build_settings(tmp_path_factory.mktemp("narrowing"), **identity(issuer, **claims, **jwks))
    with run_service(settings, make_database()) as running:
        yield running


def test_token_claims_restrict_user_and_knowledge_bases(narrowing: Service, issuer: TokenIssuer) -> None:
    tenant = narrowing.create_tenant("narrowed")
    tenant.admin.post("/v1/knowledge-bases", json={"name": "closed"}).raise_for_status()
    opened, closed = (tenant.admin.get(f"/v1/knowledge-bases/{name}").json()["id"] for name in ("default", "closed"))
    tenant.add_text("The crane of us all.")
    tenant.add_text("The crane of Ada.", user_id="ada")
    tenant.add_text("The crane behind a door.", kb="closed")

    def client(**claims: Any) -> httpx2.Client:
        usual = {"https://c.example/t": tenant.id, "r": "admin", "sub": "ada", "bases": [opened]}
        return narrowing.create_client(MAIN.sign(issuer.build_claims(**{**usual, **claims})))

    me = client().get("/v1/me").json()["key"]
    assert (me["user_id"], me["knowledge_bases"]) == ("ada", [opened])
    scope = {"query": "crane", "scope": {"user_id": "ada"}}
    assert len(client().post("/v1/search", json=scope).json()["results"]) == 2
    assert len(client(sub="bob").post("/v1/search", json=scope).json()["results"]) == 1
    assert len(client(bases=[opened, closed]).post("/v1/search", json={"query": "crane"}).json()["results"]) == 2
    assert_problem(client().get("/v1/knowledge-bases/closed"), 404)
    assert_problem(client().get("/v1/api-keys"), 403, "forbidden")
    for bases in (None, [], "default", opened, ["default"], [tenant.id], [opened, None], [opened] * 101):
        assert_problem(client(bases=bases).get("/v1/me"), 401, "unauthorized")
    other = narrowing.create_tenant("other").admin.get("/v1/knowledge-bases/default").json()["id"]
    assert client(bases=[other]).get("/v1/knowledge-bases").json()["items"] == []


def test_token_while_issuer_keys_are_unavailable_is_503(
    make_database: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with TokenIssuer() as silent:
        silent.failure_status = 503
        settings = build_settings(tmp_path_factory.mktemp("silent"), **identity(silent))
        with run_service(settings, make_database(), worker=False) as running:
            tenant = running.create_tenant("with keys")  # API keys remain valid
            token = silent.create_token(carrel_tenant=tenant.id, carrel_role="reader")
            assert_problem(running.create_client(token).get("/v1/me"), 503, "issuer_unavailable")
            assert_problem(running.create_client("a.b.c").get("/v1/me"), 401, "unauthorized")
            assert tenant.admin.get("/v1/me").status_code == 200
