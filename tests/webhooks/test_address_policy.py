"""Addresses of webhooks: allowed and forbidden ones."""

from collections.abc import Sequence
from ipaddress import ip_network

import pytest

from app.webhooks.address_policy import AddressNotAllowed, AddressPolicy


def knows(*addresses: str) -> AddressPolicy:
    """Return a policy whose resolver gives these addresses to every name."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return AddressPolicy([ip_network("10.9.0.0/16")], resolve)


async def test_check_returns_resolved_addresses() -> None:
    target = await knows("1.1.1.1", "2606:4700:4700::1111").check("https://example.com:8443/a?b=c")
    assert [str(one) for one in target.addresses] == ["1.1.1.1", "2606:4700:4700::1111"]
    assert str(target.url) == "https://example.com:8443/a?b=c"


@pytest.mark.parametrize(
    "addresses",
    [("10.0.0.1",), ("1.1.1.1", "127.0.0.1"), ("10.9.0.1", "10.8.0.1"), ("168.63.129.16",), ("fec0::1",), ("3fff::1",)],
)
async def test_check_name_with_one_private_address_is_refused(addresses: tuple[str, ...]) -> None:
    with pytest.raises(AddressNotAllowed, match="public internet"):
        await knows(*addresses).check("https://example.com/")


async def test_check_network_allowed_by_operator_is_accepted() -> None:
    for url in ("http://inner/hook", "https://inner/hook"):
        assert [str(one) for one in (await knows("10.9.3.4").check(url)).addresses] == ["10.9.3.4"]


@pytest.mark.parametrize("addresses", [("1.1.1.1",), ("10.9.0.1", "1.1.1.1")])
async def test_check_plain_http_is_accepted_in_allowed_networks_only(addresses: tuple[str, ...]) -> None:
    with pytest.raises(AddressNotAllowed, match="https"):
        await knows(*addresses).check("http://example.com/")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "file:///etc/passwd", "https://", "https:///x", "example.com", "https://user@example.com/",
        "https://user:word@example.com/", "https://example.com/#part", "https://example.com\\@other/",
        "https://example.com/a b", "https://exa\nmple.com/", "https://example.com:99999999/", "https://[::1/", "",
    ],
)  # fmt: skip
async def test_check_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(AddressNotAllowed):
        await knows("1.1.1.1").check(url)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"]
)
async def test_check_names_of_this_machine_are_refused(host: str) -> None:
    """The system's resolver finds the address."""
    with pytest.raises(AddressNotAllowed):
        await AddressPolicy().check(f"https://{host}/")


async def test_check_unknown_name_is_refused() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    for gate in (AddressPolicy(resolve=unknown), knows()):
        with pytest.raises(AddressNotAllowed, match="not known"):
            await gate.check("https://example.com/")
