"""Public addresses: the whole of every special range is refused, also inside IPv6 addresses."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest

from app.public_addresses import IpAddress, is_public_address

PUBLIC = [
    "93.184.216.34", "1.1.1.1", "168.63.129.15", "168.63.129.17", "192.0.1.1", "100.63.255.255", "100.128.0.0",
    "172.32.0.1", "223.255.255.255", "2606:4700:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "2001:200::1",
    "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1", "2606:4700::5efe:101:101",
]  # fmt: skip
SPECIAL = [
    # IPv4: every registered block without hosts of the internet
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "172.16.0.0/12",
    "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16",
    "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    "100.100.100.200/32", "192.0.0.192/32", "255.255.255.255/32",
    # IPv6
    "::/96", "::1/128", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/32", "2001:2::/48",
    "2001:10::/28", "2001:20::/28", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20", "4000::/3", "5f00::/16",
    "fc00::/7", "fd00:ec2::254/128", "fe80::/10", "fec0::/10", "ff00::/8",
]  # fmt: skip


def ends(network: str) -> list[IpAddress]:
    block = ip_network(network)
    return [block[0], block[block.num_addresses // 2], block[-1]]


def spellings(inner: IPv4Address) -> Iterator[IPv6Address]:
    """Yield the IPv6 addresses that a host or a gateway translates to this IPv4 address."""
    number = int(inner)
    yield IPv6Address(int(IPv6Address("::ffff:0:0")) | number)
    yield IPv6Address(int(IPv6Address("64:ff9b::")) | number)
    yield IPv6Address(int(IPv6Address("2002::")) | number << 80 | 1)
    yield IPv6Address(int(IPv6Address("2001::")) | number << 64 | 1)
    yield IPv6Address(int(IPv6Address("2001::")) | (number ^ 0xFFFFFFFF))
    yield IPv6Address(int(IPv6Address("2606:4700::5efe:0:0")) | number)
    yield IPv6Address(int(IPv6Address("2606:4700::200:5efe:0:0")) | number)


@pytest.mark.parametrize("address", PUBLIC)
def test_is_public_host_of_the_internet_is_true(address: str) -> None:
    assert is_public_address(ip_address(address))


@pytest.mark.parametrize("network", SPECIAL)
def test_is_public_special_range_is_false(network: str) -> None:
    assert not any(is_public_address(address) for address in ends(network))


@pytest.mark.parametrize("network", [one for one in SPECIAL if ":" not in one])
def test_is_public_special_address_inside_ipv6_is_false(network: str) -> None:
    for inner in ends(network):
        assert isinstance(inner, IPv4Address)
        assert not any(is_public_address(outer) for outer in spellings(inner)), inner


@pytest.mark.parametrize("address", ["fe80::1%eth0", "2606:4700:4700::1111%1"])
def test_is_public_address_with_zone_is_false(address: str) -> None:
    assert not is_public_address(ip_address(address))
