"""Defects that the adversary must find: in each, one check is removed. `test_seeded.py` does it in a copied tree."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DEFECTS", "Defect"]

CORE, SESSIONS, WEB = "deep_core/agent", "plugins/sessions/src/deep_sessions", "plugins/web/src/deep_web"
FOLDERS, BACKENDS, MCP = (
    "plugins/folders/src/deep_folders",
    "plugins/backends/src/deep_backends",
    "plugins/mcp/src/deep_mcp",
)
CLI, SERVED = "plugins/cli/src/deep_cli", "plugins/universe/src/deep_universe"
PLUGINS, OF_SESSIONS = "deep_core/plugins", "plugins/sessions/tests"


class Defect(NamedTuple):
    """One removed check.

    Attributes:
        file: of the source.
        old: the text of the check, which is there once.
        new: what stands there instead.
        tests: the file of the adversary that finds it, or the path of another, and a word of the tests that do ("" for
            any).
    """

    file: str
    old: str
    new: str
    tests: tuple[str, str] = ("", "")


DEFECTS: dict[str, Defect] = {
    "gates: nothing decides outside of the capabilities": Defect(
        f"{CORE}/policy/gates.py",
        "await self.policy.decide(ctx, calls, definition, args)",
        "decided.get()",
        ("tests/agent/policy/test_gates.py", ""),
    ),
    "gates: nothing verifies at the tool": Defect(
        f"{CORE}/tools/toolsets.py",
        "decision = await self.policy.verify(ctx, calls, definition, tool_args)",
        "decision = None",
        ("tests/agent/policy/test_gates.py", ""),
    ),
    "gates: nothing verifies tools that no plugin listed": Defect(
        f"{CORE}/policy/gates.py",
        "        if name in self._foreign:\n",
        "        if False:\n",
        ("tests/agent/policy/test_gates.py", ""),
    ),
    "gates: capabilities stand outside of the policy": Defect(
        f"{CORE}/policy/gates.py",
        'CapabilityOrdering(position="outermost", wraps=[AbstractCapability])',
        'CapabilityOrdering(position="innermost")',
        ("tests/agent/policy/test_gates.py", ""),
    ),
    "gates: a forged approval reaches the tool": Defect(
        f"{CORE}/tools/toolsets.py",
        "if ctx.tool_call_approved and not (decision and decision.answered):",
        "if False:",
        ("tests/agent/policy/test_approvals.py", "approver_denied"),
    ),
    "gates: any capability approves": Defect(
        f"{CORE}/policy/gates.py",
        "if leaf is not self and approves(leaf) and not self._named(leaf):",
        "if False:",
        ("tests/agent/policy/test_gates.py", ""),
    ),
    "gates: the model sees what the filter hides": Defect(
        f"{CORE}/policy/gates.py",
        "zip(tools.items(), own, strict=True) if listed.shows(mine)}",
        "zip(tools.items(), own, strict=True)}",
        ("tests/agent/policy/test_rules.py", ""),
    ),
    "gates: a call of a hidden tool runs": Defect(
        f"{CORE}/policy/decisions.py",
        "        if not said.shown:\n",
        "        if False:\n",
        ("tests/agent/policy/test_gates.py", "filter_hides"),
    ),
    "gates: a call that was cut runs": Defect(
        f"{CORE}/policy/gates.py",
        "        refuse_cut(ctx, call)\n",
        "",
        ("tests/agent/policy/test_cut_calls.py", ""),
    ),
    "gates: a check that fails allows": Defect(
        f"{PLUGINS}/dispatch.py",
        'return Deny(f"the check of plugin {plugin} failed ({type(error).__name__}), so the call is denied")',
        "continue",
        ("tests/plugins/test_load.py", "raising_check"),
    ),
    "observers: one that fails breaks the run": Defect(
        f"{PLUGINS}/dispatch.py",
        'with self._contained(impl, hook, partial(self.incidents.record, effect="ignored")):\n                try:',
        "if True:\n                try:",
        ("tests/agent/run/test_events.py", "never_break"),
    ),
    "observers: one whose await is cancelled breaks the run": Defect(
        f"{PLUGINS}/dispatch.py",
        'raise PluginError("what it awaited was cancelled") from error',
        "raise",
        ("tests/agent/run/test_events.py", "never_break"),
    ),
    "observers: one that fails at the start breaks the agent": Defect(
        f"{PLUGINS}/dispatch.py",
        'with self._contained(impl, hook, partial(self.incidents.record, effect="ignored")):\n                result =',
        "if True:\n                result =",
        ("tests/plugins/test_load.py", "observers_that_raise"),
    ),
    "trust: every project is trusted": Defect(
        f"{PLUGINS}/config.py",
        "trusted=project.is_trusted()",
        "trusted=True",
        ("tests/plugins/test_config_project.py", ""),
    ),
    "trust: it outlives a change of the file": Defect(
        f"{PLUGINS}/config_file.py",
        "return _trusted().get(self._key()) == self._digest()",
        "return self._key() in _trusted()",
        ("tests/plugins/test_config_project.py", ""),
    ),
    "trust: an untrusted project sets what it likes of a plugin": Defect(
        f"{PLUGINS}/config.py",
        'if said == "ignored" or (said == "added" and value is False):',
        "if False:",
        ("tests/plugins/test_config_project.py", ""),
    ),
    "trust: an untrusted project sets what it likes of the agent": Defect(
        f"{CORE}/config.py",
        "yield Restricted(layer.source, *_restrict(layer.sealed, AgentConfig, \"agent\"))",
        "yield Restricted(layer.source, layer.sealed, [])",
        ("tests/plugins/test_config_project.py", ""),
    ),
    "lease: two hold a session": Defect(
        f"{SESSIONS}/stores/sqlite.py",
        "if row.runner is not None and row.fence not in self._unreleased:",
        "if False:",
        (f"{OF_SESSIONS}/test_stores.py", "one_holds"),
    ),
    "lease: who lost it writes": Defect(
        f"{SESSIONS}/stores/sqlite.py",
        "if row.fence != lease.fence or row.holder is None:",
        "if False:",
        (f"{OF_SESSIONS}/test_stores.py", "needs_the_lease"),
    ),
    "lease: it is released for another holder": Defect(
        f"{SESSIONS}/stores/sqlite.py",
        "if row is not None and row.fence == lease.fence and self.owner in (None, row.owner):",
        "if row is not None and self.owner in (None, row.owner):",
        (f"{OF_SESSIONS}/test_conformance.py", "taken_over"),
    ),
    "lease: a run goes on without it": Defect(
        f"{SESSIONS}/lease.py",
        "if isinstance(error, LeaseLost) or now() >= ends:",
        "if False:",
        (f"{OF_SESSIONS}/test_lease.py", ""),
    ),
    "lease: a long run does not renew it": Defect(
        f"{SESSIONS}/lease.py",
        "await self._store.renew(lease)",
        "pass",
        (f"{OF_SESSIONS}/test_lease.py", ""),
    ),
    "policy: a yes covers reasons that were not shown": Defect(
        f"{CORE}/policy/decisions.py",
        "covered = decision.answered is not None and {*decision.reasons} <= {*decision.answered.reasons}",
        "covered = decision.answered is not None",
        ("test_sequences.py", "no_call or told"),
    ),
    "policy: the tool runs with other arguments than those that were decided on": Defect(
        f"{CORE}/policy/decisions.py",
        "return same and digest in self.digests and not (self.answered and self.used)",
        "return same and not (self.answered and self.used)",
        ("test_sequences.py", "other_arguments"),
    ),
    "policy: one answer, two calls in one step": Defect(
        f"{CORE}/policy/decisions.py",
        "return same and digest in self.digests and not (self.answered and self.used)",
        "return same and digest in self.digests",
        ("test_sequences.py", "other_arguments"),
    ),
    "policy: a question is answered twice": Defect(
        f"{CORE}/policy/approvals.py",
        "return record.pop(index)",
        "return asked",
        ("test_sequences.py", "not_allow or told"),
    ),
    "identity: a tool that changed keeps its approvals": Defect(
        f"{CORE}/policy/decisions.py",
        "if asked is not None and asked.tool != identity_of(definition):",
        "if asked is not None and not asked.tool:",
        ("test_sequences.py", "no_call or told"),
    ),
    "identity: a rule that was kept answers for a tool that changed": Defect(
        "plugins/sessions/src/deep_sessions/rules.py",
        "same = bool(self.identity) and self.identity == question.identity",
        "same = bool(self.identity)",
        ("test_approvals.py", "changed"),
    ),
    "identity: a call has another call's name for clients over HTTP": Defect(
        f"{WEB}/clients.py",
        'args, call_path(_field(event, "call_id"))',
        'args, _field(event, "call_id")',
        ("test_call_ids.py", "over_http"),
    ),
    "identity: a rule about one file answers for others": Defect(
        f"{SESSIONS}/rules.py",
        'path.startswith(self.value) if self.value.endswith("/") else path == self.value',
        "True",
        ("test_approvals.py", "rule_about"),
    ),
    "identity: what a server says of a tool changes unnoticed": Defect(
        f"{MCP}/store.py",
        "if known.get(t.name, t.digest) != t.digest)",
        "if t.name in known and not t.digest)",
        ("test_pins.py", "server"),
    ),
    "reasons: accepting edits covers every reason": Defect(
        "plugins/sessions/src/deep_sessions/rules.py",
        "return not question.is_choice and are_answered(question.reasons, ACCEPT_EDITS) and _changes_file(question)",
        "return not question.is_choice and _changes_file(question)",
        ("test_approvals.py", "accept_edits"),
    ),
    "reasons: without any, everything is covered": Defect(
        "plugins/tool-expressions/src/tool_expressions/reasons.py",
        "return bool(reasons) and all(",
        "return all(",
        ("test_approvals.py", "empty"),
    ),
    "reasons: a write that asks anyway does not say what runs later": Defect(
        "plugins/filesystem/src/deep_filesystem/run_later.py",
        'return Ask(text, "runs_later") if text else None',
        "return None",
        ("test_approvals.py", ""),
    ),
    "table: files of git": Defect(
        f"{BACKENDS}/run_later.py", '    ".git": GIT,\n    ".hg"', '    ".hg"', ("test_run_later.py", "table")
    ),
    "table: names in capitals": Defect(
        f"{BACKENDS}/run_later.py",
        'folded = path.casefold().strip("/")',
        'folded = path.strip("/")',
        ("test_run_later.py", "table"),
    ),
    "sandbox: what runs later stays": Defect(
        f"{BACKENDS}/sandbox.py",
        "                notes += _put_back(bounds.root, later)\n",
        "                pass\n",
        ("test_run_later.py", "nothing_that and (hook or direnv)"),
    ),
    "sandbox: git is led to another folder": Defect(
        f"{BACKENDS}/run_later.py",
        'folder) and text == "../..\\n" else text',
        'folder) and text == "../..\\n" else ""',
        ("test_run_later.py", "nothing_that and commondir"),
    ),
    "sandbox: git is led to what is not looked at": Defect(
        f"{BACKENDS}/run_later.py",
        "return match is not None and _is_looked_at(root, os.path.join(root, folder, match[1]))",
        "return match is not None and _is_inside(root, os.path.join(root, folder, match[1]))",
        ("test_run_later.py", "nothing_that and looked"),
    ),
    "sandbox: what worktrees share is not looked at": Defect(
        f"{BACKENDS}/run_later.py",
        'or is_own or {"objects", "refs"} <= names',
        "or is_own",
        ("test_run_later.py", "nothing_that and shares"),
    ),
    "sandbox: what a configuration of git includes is not read": Defect(
        f"{BACKENDS}/run_later.py",
        'mark = INCLUDED if key.startswith("include") else HOOKS if',
        "mark = HOOKS if",
        ("test_run_later.py", "nothing_that and included"),
    ),
    "sandbox: programs that a configuration of git names are not compared": Defect(
        f"{BACKENDS}/run_later.py",
        '                if place.startswith(f"{root}/"):\n                    yield mark',
        '                if mark and place.startswith(f"{root}/"):\n                    yield mark',
        ("test_run_later.py", "nothing_that and named"),
    ),
    "sandbox: every configuration of git is harmless": Defect(
        f"{BACKENDS}/git_config.py",
        "        if not _is_harmless(section, key, value, is_inside):\n",
        "        if not section:\n",
        ("test_run_later.py", "nothing_that and submodule"),
    ),
    "host: malformed": Defect(
        f"{WEB}/guard.py",
        r"""_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")""",
        """_HOST = re.compile(r"(.*?)(?::[0-9]{1,5})?")""",
        ("test_owners.py", "malformed"),
    ),
    "host: any name": Defect(
        f"{WEB}/guard.py",
        'if "*" not in self._hosts and name[1].strip("[]").lower() not in self._hosts:',
        "if not self._hosts:",
        ("test_owners.py", "host"),
    ),
    "host: pages of other sites": Defect(
        f"{WEB}/guard.py",
        'if origin is not None and origin.partition("://")[2] != given[0]:',
        'if origin is not None and not origin.partition("://")[1]:',
        ("test_owners.py", "another_site"),
    ),
    "owner: the store shows sessions of others": Defect(
        f"{SESSIONS}/stores/sqlite.py",
        "if row is None or (self.owner is not None and row.owner != self.owner):",
        "if row is None:",
        ("test_owners.py", "another_owner"),
    ),
    "owner: an answer is for whatever waits now": Defect(
        f"{SESSIONS}/mailbox.py",
        "if approval is not None and now is not None and now.approval != approval:",
        "if False:",
        ("test_sequences.py", "stored or told"),
    ),
    "one-time code: it admits again": Defect(
        f"{WEB}/guard.py",
        "        self._code_ends = 0.0\n        return True",
        "        return True",
        ("test_owners.py", "once"),
    ),
    "verdicts: an answer that is cut says nothing": Defect(
        f"{FOLDERS}/running.py",
        '        if len(found) > OUTPUT_BYTES:\n            raise _NotReadable(',
        '        if len(found) > OUTPUT_BYTES:\n            return b""\n            raise _NotReadable(',
        ("test_verdicts.py", ""),
    ),
    "verdicts: what begins like JSON and does not parse says nothing": Defect(
        f"{FOLDERS}/answers.py",
        'raise ValueError("its answer begins like JSON and cannot be read") from None',
        "return None",
        ("test_verdicts.py", ""),
    ),
    "verdicts: a guard that is late says nothing": Defect(
        f"{FOLDERS}/running.py",
        'return f"it took more than {hook.timeout:g} seconds"',
        'return 0, "", ""',
        ("test_verdicts.py", "late"),
    ),
    "frontmatter: aliases multiply": Defect(
        "plugins/skills/src/deep_skills/fields.py",
        "if parent.size > MOST_NODES or self.nodes > MOST_NODES:",
        "if self.nodes > MOST_NODES:",
        ("test_frontmatter.py", "bomb"),
    ),
    "pins: byte code is not in the digest": Defect(
        f"{FOLDERS}/store.py",
        "return digest_of(self.content(added), skipped=()) == added.digest",
        "return digest_of(self.content(added)) == added.digest",
        ("test_pins.py", "copy"),
    ),
    "pins: what can be executed is not in the digest": Defect(
        f"{FOLDERS}/snapshot.py",
        'runs = "x" if path.stat().st_mode & 0o100 else "-"',
        'runs = "-"',
        ("test_pins.py", "program"),
    ),
    "filters: subagents have what is not served": Defect(
        f"{SERVED}/mcp_server.py",
        'served = [tool for tool in served if "subagent" not in known[tool.name].tags]',
        "served = [*served]",
        ("test_authority.py", "server"),
    ),
    "filters: task has only its own tags": Defect(
        "plugins/subagents/src/deep_subagents/inherited.py",
        "    tags |= {*STANDARD_TAGS} if plan is None else _tags_of_tools(plan.known, plan.policy.rules)\n",
        "",
        ("test_authority.py", "task"),
    ),
    "filters: tools that cannot be read are all tools": Defect(
        f"{FOLDERS}/claude_plugin.py",
        '"not a list of names, so it has no tools")\n                    return ""',
        '"not a list of names, so it has no tools")\n                    return None',
        ("test_authority.py", "agent_of_a_folder"),
    ),
    "filters: a tool that changes things reads only": Defect(
        f"{SERVED}/drivers/mcp.py",
        '    if "read" not in tags or any(tag in tags for tag in CHANGES):\n',
        '    if "read" not in tags:\n',
        ("test_authority.py", "read_only"),
    ),
    "masks: values of a server's variables": Defect(
        f"{CLI}/config/settings.py",
        'if key.rpartition(".")[2] in ("env", "headers"):',
        'if key.rpartition(".")[2] in ("headers",):',
        ("test_names.py", "masked"),
    ),
    "masks: names of parameters with hidden characters": Defect(
        f"{MCP}/sanitize.py",
        "out[clean_value(key)] = _clean(item, values=named)",
        "out[key] = _clean(item, values=named)",
        ("test_names.py", "schema"),
    ),
    "imports: a module interrupts the program": Defect(
        "plugins/entry-point-index/src/entry_point_index/interrupts.py",
        "return not says or any(isinstance(value, FrameType) for value in frame.f_locals.values())",
        "return True",
        ("test_names.py", "interrupt or import"),
    ),
}  # fmt: skip
