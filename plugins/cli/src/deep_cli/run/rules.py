"""What the user approves always: the rules of deep-sessions, which the page shares."""

from __future__ import annotations

from deep_sessions import Always, Rule, Rules, is_edit, rules_of
from deep_sessions import rules_for as offers

__all__ = ["Always", "Rule", "Rules", "is_edit", "offers", "rules_of"]
