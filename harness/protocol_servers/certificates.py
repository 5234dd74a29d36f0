"""Certificate authority for tests. It issues server certificates for any host name."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class CertificateAuthority:
    """Certificate authority with a new key. Its certificates are valid for a day."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = self._sign(self._name, self._key.public_key(), constraints)

    def create_client_context(self) -> ssl.SSLContext:
        """Create the TLS context of a client that trusts only this authority."""
        data = self._certificate.public_bytes(serialization.Encoding.PEM).decode()
        return ssl.create_default_context(cadata=data)

    def create_server_context(self, host: str, folder: Path) -> ssl.SSLContext:
        """Create the TLS context of a server with a new certificate.

        Args:
            host: Host name of the server.
            folder: Folder for the file with certificate and key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        path = folder / f"{host}.pem"
        path.write_bytes(
            self._sign(subject, key.public_key(), names).public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - timedelta(hours=1),
            not_valid_after=now + timedelta(days=1),
        )
        return builder.add_extension(extension, critical=True).sign(self._key, hashes.SHA256())
