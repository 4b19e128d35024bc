"""Only public addresses are read, whatever form they come in."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from deep_web_tools.addresses import checked_addresses, is_public, resolve
from deep_web_tools.errors import WebError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawn import examples
from tests.web_site import PUBLIC, Names

pytestmark = pytest.mark.anyio

REFUSED = {
    "this network": "0.0.0.0",
    "private 10": "10.1.2.3",
    "shared": "100.64.0.1",
    "loopback": "127.0.0.1",
    "loopback, another": "127.8.9.1",
    "link-local": "169.254.1.1",
    "private 172": "172.16.0.1",
    "private 192": "192.168.1.1",
    "documentation": "192.0.2.1",
    "relay to IPv6": "192.88.99.1",
    "benchmarks": "198.18.0.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "unspecified 6": "::",
    "loopback 6": "::1",
    "link-local 6": "fe80::1",
    "link-local 6 with a scope": "fe80::1%1",
    "site-local": "fec0::1",
    "unique local": "fd12::1",
    "multicast 6": "ff02::1",
    "documentation 6": "2001:db8::1",
    "documentation 6, newer": "3fff::1",
    "teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "6to4 of loopback": "2002:7f00:1::",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped private": "::ffff:10.0.0.1",
    "compatible loopback": "::127.0.0.1",
    "NAT64 of private": "64:ff9b::10.0.0.1",
    "local NAT64": "64:ff9b:1::1",
}


@pytest.mark.parametrize("address", REFUSED.values(), ids=REFUSED)
def test_an_address_that_is_not_public(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize("address", [PUBLIC, "1.1.1.1", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"])
def test_an_address_that_is_public(address: str) -> None:
    assert is_public(ip_address(address))


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_inside_an_ipv6_one_counts_as_itself(number: int) -> None:
    plain = IPv4Address(number)
    for prefix in (0xFFFF << 32, int(IPv6Address("64:ff9b::"))):
        assert is_public(IPv6Address(prefix | number)) == is_public(plain)


@settings(max_examples=examples(300))
@given(st.ip_addresses())
def test_what_python_calls_special_is_never_public(address: IPv4Address | IPv6Address) -> None:
    special = address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
    embedded = isinstance(address, IPv6Address) and (address.ipv4_mapped or address in _nat64())
    if not embedded and (special or address.is_reserved or address.is_unspecified):
        assert not is_public(address)


def _nat64() -> object:
    from ipaddress import ip_network

    return ip_network("64:ff9b::/96")


async def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    names = Names(two_test=[[PUBLIC, "10.0.0.1"]])
    with pytest.raises(WebError, match=r"two\.test has the address 10\.0\.0\.1, which is not public"):
        await checked_addresses("two.test", 80, resolver=names)


async def test_all_addresses_of_a_public_host_are_returned() -> None:
    names = Names(two_test=[[PUBLIC, "2606:4700:4700::1111"]])
    assert [str(each) for each in await checked_addresses("two.test", 80, resolver=names)] == [
        PUBLIC,
        "2606:4700:4700::1111",
    ]


@pytest.mark.parametrize("address", ["169.254.169.254", "168.63.129.16", "fd00:ec2::254", "::ffff:169.254.169.254"])
async def test_a_clouds_metadata_is_refused_even_if_private_addresses_are_allowed(address: str) -> None:
    with pytest.raises(WebError, match="metadata service"):
        await checked_addresses("a.test", 80, resolver=Names(a_test=[[address]]), allow_private=True)


async def test_a_name_that_does_not_resolve_is_reported() -> None:
    with pytest.raises(WebError, match=r"the host none\.test is not known"):
        await checked_addresses("none.test", 80, resolver=Names())
    with pytest.raises(WebError, match="has no address"):
        await checked_addresses("none.test", 80, resolver=Names(none_test=[[]]))


@pytest.mark.parametrize("spelling", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "::1"])
async def test_the_systems_resolver_shows_what_a_spelling_means(spelling: str) -> None:
    found = await resolve(spelling, 80)
    assert found
    assert not any(is_public(ip_address(each)) for each in found)
