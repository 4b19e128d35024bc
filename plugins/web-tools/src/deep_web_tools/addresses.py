"""Which addresses a page may be read from: a host is resolved once, and all its addresses are checked."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TypeAlias

import anyio.to_thread

from .errors import WebError

__all__ = ["Address", "Resolver", "checked_addresses", "is_public", "resolve"]

Address: TypeAlias = IPv4Address | IPv6Address
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port -> addresses, the preferred first. Raises OSError."""

# Addresses at which clouds serve the machine's own credentials. Two of them lie in no private range.
_METADATA = frozenset(map(ip_address, ("169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254")))
# Ranges of IPv4 that `is_global` of some Python versions accepts: relays to IPv6, and AS112.
_OTHER_IPV4 = (ip_network("192.88.99.0/24"), ip_network("192.31.196.0/24"), ip_network("192.175.48.0/24"))
# Only this range of IPv6 is global unicast; those below lie in it, and carry or lead to other addresses.
_UNICAST = ip_network("2000::/3")
_OTHER_IPV6 = tuple(map(ip_network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_NAT64 = ip_network("64:ff9b::/96")


async def resolve(host: str, port: int) -> Sequence[str]:
    """Resolve a host with the operating system. Raises OSError."""
    found = await anyio.to_thread.run_sync(
        lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM), abandon_on_cancel=True
    )
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(
    host: str, port: int, *, resolver: Resolver = resolve, allow_private: bool = False
) -> list[Address]:
    """Resolve a host once and return its addresses. One address that is not allowed refuses the host.

    Args:
        host: a name or an address.
        port: the port to connect to.
        resolver: resolves names.
        allow_private: also return addresses that are not public.

    Raises:
        WebError: the host does not resolve, or an address is not allowed.
    """
    try:
        found = await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise WebError(f"the host {host} is not known. Check the address.") from error
    addresses = [ip_address(text) for text in found]
    if not addresses:
        raise WebError(f"the host {host} has no address. Check the address.")
    for address in addresses:
        if _plain(address) in _METADATA:
            raise WebError(f"{host} is a cloud's metadata service ({address}), which fetch never reads.")
        if not (allow_private or is_public(address)):
            raise WebError(f"{host} has the address {address}, which is not public. fetch reads public hosts only.")
    return addresses


def is_public(address: Address) -> bool:
    """Whether an address belongs to a host of the public internet."""
    plain = _plain(address)
    if isinstance(plain, IPv4Address):
        return plain.is_global and not (
            plain.is_multicast or plain.is_reserved or any(plain in network for network in _OTHER_IPV4)
        )
    return plain in _UNICAST and plain.is_global and not any(plain in network for network in _OTHER_IPV6)


def _plain(address: Address) -> Address:
    """Return the IPv4 address inside an IPv6 one (mapped, or of the well-known NAT64 prefix), else the address."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
        if address.scope_id is not None:
            return IPv6Address(int(address))
    return address
