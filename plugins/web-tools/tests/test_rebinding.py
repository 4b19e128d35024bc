"""A name is resolved once, and the connection goes to the address that was checked."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from deep_web_tools.download import Downloader
from deep_web_tools.errors import WebError
from deep_web_tools.fetch import Fetcher

from tests.web_site import PUBLIC, Names, Site, Wires

pytestmark = pytest.mark.anyio


@pytest.mark.slow
async def test_an_answer_that_changes_after_the_check_is_never_asked_for(
    site: Site, make_fetcher: Callable[..., Fetcher]
) -> None:
    site.page("/", "from the first address")
    names, wires = Names(turns_test=[[PUBLIC], ["127.0.0.1"]]), Wires()
    fetcher = make_fetcher(names=names, allow_private=False, inner=wires)
    assert "from the first address" in await fetcher.fetch(site.url("/", "turns.test"))
    assert names.asked == ["turns.test"]
    assert wires.connected == [PUBLIC]
    assert site.seen == [(f"turns.test:{site.port}", "/")]  # the server sees the name


@pytest.mark.slow
async def test_the_next_request_checks_anew(site: Site, make_fetcher: Callable[..., Fetcher]) -> None:
    site.page("/", "public")
    wires = Wires()
    fetcher = make_fetcher(names=Names(turns_test=[[PUBLIC], ["127.0.0.1"]]), allow_private=False, inner=wires)
    await fetcher.fetch(site.url("/", "turns.test"))
    with pytest.raises(WebError, match="not public"):
        await fetcher.fetch(site.url("/", "turns.test"))
    assert wires.connected == [PUBLIC]


async def test_a_redirect_to_the_same_name_checks_anew(site: Site, make_fetcher: Callable[..., Fetcher]) -> None:
    site.redirect("/", "/secret")
    site.page("/secret", "the secret")
    wires = Wires()
    fetcher = make_fetcher(names=Names(turns_test=[[PUBLIC], ["127.0.0.1"]]), allow_private=False, inner=wires)
    with pytest.raises(WebError, match="not public"):
        await fetcher.fetch(site.url("/", "turns.test"))
    assert [path for _, path in site.seen] == ["/"]


@pytest.mark.slow
async def test_the_next_address_is_tried_if_one_does_not_answer(
    site: Site, make_fetcher: Callable[..., Fetcher]
) -> None:
    site.page("/", "it answers")

    class OneIsDown(Wires):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if not self.connected:
                self.connected.append(request.url.host)
                raise httpx2.ConnectError("unreachable")
            return await super().handle_async_request(request)

    wires = OneIsDown()
    fetcher = make_fetcher(names=Names(two_test=[["1.1.1.1", PUBLIC]]), allow_private=False, inner=wires)
    assert "it answers" in await fetcher.fetch(site.url("/", "two.test"))
    assert wires.connected == ["1.1.1.1", PUBLIC]


async def test_no_proxy_of_the_environment_is_used(
    site: Site, make_fetcher: Callable[..., Fetcher], monkeypatch: pytest.MonkeyPatch
) -> None:
    site.page("/", "direct")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert "direct" in await make_fetcher().fetch(site.url("/"))


# -- TLS ---------------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> Path:
    """A certificate of its own for a name, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(private + made.public_bytes(pem))
    return file


async def test_tls_is_checked_against_the_name_not_the_address(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path, "named.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    asked: list[Any] = []
    context.sni_callback = lambda socket, name, context: asked.append(name)
    site.secure(context)
    site.page("/", "over TLS")
    trusted = ssl.create_default_context(cafile=file)
    inner = httpx2.AsyncHTTPTransport(verify=trusted, trust_env=False)
    names = Names(named_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])
    downloader = Downloader(10_000, allow_private=True, resolver=names, inner=inner)
    page = await downloader.download(f"https://named.test:{site.port}/")
    assert page.body == b"over TLS"
    assert asked == ["named.test"]
    inner = httpx2.AsyncHTTPTransport(verify=trusted, trust_env=False)
    downloader = Downloader(10_000, allow_private=True, resolver=names, inner=inner)
    with pytest.raises(WebError, match=r"other\.test cannot be read: no connection .*certificate"):
        await downloader.download(f"https://other.test:{site.port}/")
