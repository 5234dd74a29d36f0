"""Public internet addresses: the IP addresses that the service may connect to for a tenant.

The tables list addresses that are not public. They copy the special-purpose address registries of IANA (IPv4 and IPv6,
as of 2025), because the tables of Python's ``ipaddress`` differ between releases. The tables also contain internal
addresses of cloud services inside public ranges.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

_NOT_PUBLIC_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; metadata services of clouds
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # internal service of a cloud
        "169.254.0.0/16",  # link-local; metadata services of clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; metadata service of a cloud
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112: answered by the nearest network
        "192.52.193.0/24",  # automatic multicast tunnels
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
# Only this block is assigned to hosts of the internet. All other blocks are loopback, link-local, site-local, private,
# multicast, translation prefixes, or reserved.
_UNICAST = IPv6Network("2000::/3")
_NOT_PUBLIC_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_6TO4 = IPv6Network("2002::/16")
# Interface identifiers of ISATAP, before an IPv4 address.
_ISATAP = (0x00005EFE, 0x02005EFE)


def is_public_address(address: IpAddress) -> bool:
    """Return whether an address belongs to a host of the public internet.

    An IPv6 address that a gateway translates to IPv4 counts as that IPv4 address.

    Args:
        address: The address that a connection would be made to.

    Returns:
        False for every special-purpose address, and for an IPv6 address with a zone.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_IPV4)
    if address.scope_id is not None:
        return False
    if address in _MAPPED or address in _NAT64:
        return is_public_address(IPv4Address(int(address) & 0xFFFFFFFF))
    if address not in _UNICAST or any(address in network for network in _NOT_PUBLIC_IPV6):
        return False
    if address in _6TO4 and not is_public_address(IPv4Address(int(address) >> 80 & 0xFFFFFFFF)):
        return False
    is_isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
    return not is_isatap or is_public_address(IPv4Address(int(address) & 0xFFFFFFFF))
