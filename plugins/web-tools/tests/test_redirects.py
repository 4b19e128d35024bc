"""Each target of a redirect is an address like the first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from deep_web_tools.errors import WebError
from deep_web_tools.fetch import Fetcher

from tests.web_site import PUBLIC, Names, Site, Wires

pytestmark = pytest.mark.anyio
Make = Callable[..., Fetcher]


@pytest.mark.slow
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed(site: Site, make_fetcher: Make, status: int) -> None:
    site.page("/there", "the page")
    shown = await make_fetcher().fetch(site.redirect("/here", "there?x=1#part", status))
    assert "the page" in shown
    assert f'url="{site.url("/there?x=1")}"' in shown


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/secret",
        "http://localhost.test:{port}/secret",
        "//10.0.0.1/secret",
        "http://[::1]:{port}/secret",
        "http://[::ffff:127.0.0.1]:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
async def test_a_redirect_to_a_private_address_is_refused(site: Site, make_fetcher: Make, target: str) -> None:
    site.page("/secret", "the secret")
    site.redirect("/", target.format(port=site.port))
    names, wires = Names(public_test=[[PUBLIC]], localhost_test=[["127.0.0.1"]]), Wires()
    fetcher = make_fetcher(names=names, allow_private=False, inner=wires)
    with pytest.raises(WebError, match=r"not public|metadata"):
        await fetcher.fetch(site.url("/", "public.test"))
    assert wires.connected == [PUBLIC]


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://a.test/", "javascript:alert(1)", "http://a:b@c/"])
async def test_a_redirect_to_no_address_of_the_web_is_refused(site: Site, make_fetcher: Make, target: str) -> None:
    with pytest.raises(WebError):
        await make_fetcher().fetch(site.redirect("/", target))
    assert len(site.seen) == 1


async def test_redirects_end(site: Site, make_fetcher: Make) -> None:
    with pytest.raises(WebError, match="redirects more than 3 times"):
        await make_fetcher(max_redirects=3).fetch(site.redirect("/", "/"))
    assert len(site.seen) == 4


async def test_a_redirect_without_a_target(site: Site, make_fetcher: Make) -> None:
    with pytest.raises(WebError, match="does not say where"):
        await make_fetcher().fetch(site.redirect("/", ""))


async def test_a_redirect_to_a_host_that_is_not_allowed_is_refused(site: Site, make_fetcher: Make) -> None:
    names = Names(docs_test=[["127.0.0.1"]], evil_test=[["127.0.0.1"]])
    site.redirect("/", site.url("/take?secret=1", "evil.test"))
    with pytest.raises(WebError, match=r"does not allow the host evil\.test\. Allowed: docs\.test"):
        await make_fetcher(names=names, hosts=["docs.test"]).fetch(site.url("/", "docs.test"))
    assert names.asked == ["docs.test"]


@pytest.mark.slow
async def test_an_approval_covers_one_site(site: Site, make_fetcher: Make) -> None:
    names = Names(docs_test=[["127.0.0.1"]], www_docs_test=[["127.0.0.1"]], evil_test=[["127.0.0.1"]])
    fetcher = make_fetcher(names=names, stay=True)
    site.redirect("/", site.url("/www", "www.docs.test"))
    site.page("/www", "with www")
    assert "with www" in await fetcher.fetch(site.url("/", "docs.test"))
    site.redirect("/away", site.url("/take", "evil.test"))
    with pytest.raises(WebError, match=rf"Call fetch with http://evil\.test:{site.port}/take"):
        await fetcher.fetch(site.url("/away", "docs.test"))
    assert "evil.test" not in names.asked


@pytest.mark.slow
async def test_no_cookie_goes_from_page_to_page(site: Site, make_fetcher: Make) -> None:
    site.pages["/"] = lambda request: request.reply(302, b"", Location="/next", Set_Cookie="who=you; Path=/")
    site.page("/next", "the page")
    await make_fetcher().fetch(site.url("/"))
    assert not any("Cookie" in headers for headers in site.headers)


# -- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("example.com/page", "does not start with http"),
        ("file:///etc/passwd", "does not start with http"),
        ("", "does not start with http"),
        ("http://", "no valid host"),
        ("http://user:secret@a.test/", "a name or a password"),
        ("http://a.test:0/", "no valid host"),
        ("http://a.test:99999/", "no"),
        ("http://[::1/", "no address"),
        ("http://a.test/" + "x" * 9_000, "more than 8,000"),
        ("http://none.test/", "not known"),
        ("http://10.0.0.1/", "not public"),
    ],
)
async def test_what_is_no_address_is_reported(make_fetcher: Make, url: str, said: str) -> None:
    with pytest.raises(WebError, match=said) as caught:
        await make_fetcher(allow_private=False).fetch(url)
    assert "secret" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "allowed"),
    [("docs.test", True), ("DOCS.test.", True), ("a.b.test", True), ("b.test", False), ("evil-docs.test", False)],
)
async def test_hosts_that_are_allowed(site: Site, make_fetcher: Make, host: str, allowed: bool) -> None:
    site.page("/", "read")
    names = Names(docs_test=[["127.0.0.1"]], a_b_test=[["127.0.0.1"]])
    fetcher = make_fetcher(names=names, hosts=["docs.test", "*.b.test"])
    if allowed:
        assert "read" in await fetcher.fetch(site.url("/", host))
    else:
        with pytest.raises(WebError, match="does not allow"):
            await fetcher.fetch(site.url("/", host))
        assert names.asked == []
