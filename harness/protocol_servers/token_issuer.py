"""OpenID Connect issuer with discovery, public keys, and tokens signed with RSA, EC and Ed25519 keys."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from harness.protocol_servers.http_server import LongQueueServer, ProtocolServer

AUDIENCE = "carrel-of-the-tests"
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class SigningKey:
    """Private key, with the id and the algorithm of its public key."""

    kid: str
    algorithm: str
    private_key: PrivateKey

    @classmethod
    def generate(cls, kid: str, algorithm: str = "ES256") -> Self:
        """Generate a key for a signature algorithm.

        Args:
            kid: Id of the key.
            algorithm: Name of the algorithm in JWT, such as ``ES256``.
        """
        if algorithm.startswith(("RS", "PS")):
            return cls(kid, algorithm, rsa.generate_private_key(public_exponent=65537, key_size=2048))
        if algorithm == "EdDSA":
            return cls(kid, algorithm, ed25519.Ed25519PrivateKey.generate())
        return cls(kid, algorithm, ec.generate_private_key(ec.SECP384R1() if algorithm == "ES384" else ec.SECP256R1()))

    @property
    def public_jwk(self) -> dict[str, Any]:
        """Public key as JSON Web Key, with id, algorithm and use."""
        public = self.private_key.public_key()
        if isinstance(public, rsa.RSAPublicKey):
            data = RSAAlgorithm.to_jwk(public, as_dict=True)
        elif isinstance(public, ed25519.Ed25519PublicKey):
            data = OKPAlgorithm.to_jwk(public, as_dict=True)
        else:
            data = ECAlgorithm.to_jwk(public, as_dict=True)
        data.pop("key_ops", None)
        return {**data, "kid": self.kid, "alg": self.algorithm, "use": "sig"}

    @property
    def public_pem(self) -> bytes:
        """Public key in PEM format."""
        public = self.private_key.public_key()
        return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def sign(self, claims: dict[str, Any], **headers: Any) -> str:
        """Sign claims as a JSON Web Token, with further headers."""
        return jwt.encode(claims, self.private_key, self.algorithm, {"kid": self.kid, **headers})


@dataclass
class TokenIssuer(ProtocolServer):
    """Issuer that runs while its ``with`` block runs.

    Attributes:
        keys: Signing keys; the last one signs new tokens.
        failure_status: HTTP status of all replies; None replies normally.
        answers: Replies by path, which replace the normal ones.
        request_counts: Number of requests by path.
    """

    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey.generate("first")])
    failure_status: int | None = None
    answers: dict[str, Any] = field(default_factory=dict)
    request_counts: Counter[str] = field(default_factory=Counter)

    def create_http_server(self) -> ThreadingHTTPServer:
        """Create the HTTP server, bound to a port and not yet serving."""
        issuer = self

        class TokenIssuerHandler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.request_counts[self.path] += 1
                status, body = issuer.answer(self.path)
                self.send_response(status)
                self.send_header("Location", issuer.url + "/keys")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Ignore log messages, to keep them out of the tests' output."""

        return LongQueueServer(("127.0.0.1", 0), TokenIssuerHandler)

    @property
    def url(self) -> str:
        """Address of the issuer."""
        return self.address

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return status and body of the reply to a request.

        Args:
            path: Path of the request.
        """
        if self.failure_status is not None:
            return self.failure_status, b"{}"
        usual = {
            "/.well-known/openid-configuration": {"issuer": self.url, "jwks_uri": f"{self.url}/keys"},
            "/keys": {"keys": [key.public_jwk for key in self.keys]},
        }
        result = {**usual, **self.answers}.get(path)
        body = result if isinstance(result, bytes) else json.dumps(result).encode()
        return (404, b"{}") if result is None else (200, body)

    def build_claims(self, **claims: Any) -> dict[str, Any]:
        """Return the claims of a valid token, with the given changes. A claim of None is left out."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "someone", "iat": now, "nbf": now, "exp": now + 300}
        return {name: value for name, value in {**usual, **claims}.items() if value is not None}

    def create_token(self, **claims: Any) -> str:
        """Create a token with the claims of ``build_claims``, signed with the last key."""
        return self.keys[-1].sign(self.build_claims(**claims))
