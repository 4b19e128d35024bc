"""grep with ripgrep, if the workspace runs commands and has it: the same answer as without, sooner.

`engine` chooses how: `here` in a directory of this machine, where a walk (`beside`) accompanies the process
(`process`), `elsewhere` in a container, where everything is a command (`workspace`). `command` is what ripgrep is told,
`answer` what it printed, `lines` adds the lines of the first files.
"""

from .engine import can_try, search_by_ripgrep

__all__ = ["can_try", "search_by_ripgrep"]
