"""Let a scripted model work with the tickets of a real server."""

import asyncio

import pytest
from pytest_deep import call

from acme_tickets.state import OPEN


@pytest.fixture
def play(deep_kernel, scripted_model, deep_deps, options):
    kernel = deep_kernel("tickets")

    def play(*answers, deps=None):
        model = scripted_model(*answers, "Done.")
        agent = kernel.create_agent(model, tickets=options, interrupt_on=False)
        deps = deps or deep_deps(kernel)
        asyncio.run(agent.run("Look at the tickets.", deps=deps))
        return model, deps

    return play


def results(model):
    return [part.content for request in model.requests for part in request.results]


def test_tickets_are_listed_and_the_section_names_them(play, service):
    model, deps = play(call("tickets_list"))
    assert results(model)[0] == [{"number": 1, "title": "The door is stuck"}]
    assert "#1 The door is stuck" in model.requests[1].text
    assert deps.state[OPEN] == {"1": "The door is stuck"}


def test_it_logs_in_once_and_again_when_the_token_is_old(play, service):
    _, deps = play(call("tickets_list"), call("tickets_list"))
    assert service.logins == 1
    service.expire()
    model, _ = play(call("tickets_create", title="The lamp is out"), deps=deps)
    assert "#2" in results(model)
    assert service.logins == 3


def test_a_ticket_is_closed(play, service):
    model, deps = play(call("tickets_list"), call("tickets_close", number=1))
    assert service.tickets == {}
    assert deps.state[OPEN] == {}
    model, _ = play(call("tickets_close", number=7))
    assert "no ticket 7" in results(model)[0]


def test_closing_asks_a_person(deep_kernel, scripted_model, deep_deps, options, service):
    kernel = deep_kernel("tickets")
    agent = kernel.create_agent(scripted_model(call("tickets_close", number=1)), tickets=options)
    output = asyncio.run(agent.run("Close it.", deps=deep_deps(kernel))).output
    assert [each.tool_name for each in output.approvals] == ["tickets_close"]
    assert service.tickets


@pytest.mark.parametrize(("password", "told"), [("wrong", "does not let agent in"), ("", "TICKETS_PASSWORD")])
def test_who_cannot_log_in_reads_why(play, monkeypatch, password, told):
    monkeypatch.setenv("TICKETS_PASSWORD", password)
    model, _ = play(call("tickets_list"))
    assert told in results(model)[0]
    assert "sesame" not in model.requests[1].text


def test_a_service_that_is_away_fails_the_call_and_not_the_run(play, options):
    options["url"] = "http://127.0.0.1:1"
    model, _ = play(call("tickets_list"))
    assert "does not answer" in results(model)[0]


def test_without_an_address_there_are_no_tools(deep_kernel, scripted_model, deep_deps):
    kernel = deep_kernel("tickets")
    model = scripted_model("Hello.")
    asyncio.run(kernel.create_agent(model).run("Hello", deps=deep_deps(kernel)))
    assert not model.requests[0].tools
