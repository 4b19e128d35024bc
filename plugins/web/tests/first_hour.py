"""The first hour on the page, in fifteen steps, and what must hold of how each looks.

`python -m scripts.page_hour FOLDER` writes a picture of each, to be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .served import Served
from .tabs import Keys, Tab

__all__ = ["LOOKS", "faults", "hour"]

LOOKS = {"light": (False, None), "dark": (True, None), "phone": (False, 390), "phone-dark": (True, 390)}
"""Of each look: whether it is dark, and the width in pixels, None for the window's."""
TABLE = """# Tests

Three files have **tests**, see [the README](https://example.org/a/very/long/address/that/does/not/fit/on/a/phone):

| File | Tests | What they are about |
|:---|---:|---|
| `tests/test_money.py` | 3 | cents, and how half a cent is rounded |
| `tests/test_report.py` | 12 | the table of a month, and its total |

- [x] read `tests/test_money.py`
- [ ] run `python3 -m unittest`

1. first
2. second

```python
def to_cents(text: str) -> int:  # a comment that is longer than a telephone is wide, so that the code has to break
    return round(float(text) * 100)
```

> A word of somebody else.
"""
FAULTS = """
const seen = (node) => node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
const scrolls = (node) => {
  for (let up = node.parentElement; up; up = up.parentElement) {
    if (up.matches(".wide, pre, #session-list .name")) return true;
  }
  return false;
};
const name = (node) => `${node.tagName}#${node.id}.${node.className}: ${(node.innerText ?? "").slice(0, 40)}`;
const found = [];
const wide = innerWidth;
const all = "button, summary, input, textarea, select, article, .card, pre, h1, h2, p, li, label";
if (document.documentElement.scrollWidth > wide) found.push("the page is wider than the window");
for (const node of document.querySelectorAll(all)) {
  if (!seen(node)) continue;
  const box = node.getBoundingClientRect();
  if (!box.width || scrolls(node) || node.closest(".skip")) continue;
  if (box.left < -1 || box.right > wide + 1) found.push(`beyond the window: ${name(node)}`);
  const isButton = node.tagName === "BUTTON";
  if (isButton && node.scrollWidth > node.clientWidth + 1) found.push(`its text does not fit: ${name(node)}`);
  if (node.matches("button, select, summary") && box.height < 24) found.push(`too low to touch: ${name(node)}`);
}
for (const id of ["text", "send"]) {
  const node = document.getElementById(id);
  if (!seen(node)) continue;
  const box = node.getBoundingClientRect();
  if (box.bottom > innerHeight + 1 || box.top < 0) found.push(`not on the screen: #${id}`);
  const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  if (!document.querySelector("dialog[open]") && top !== node) found.push(`covered: #${id} by ${name(top)}`);
}
const list = document.getElementById("items");
if (list.scrollHeight - list.scrollTop - list.clientHeight > 1) found.push("the conversation is not at its end");
for (const card of document.querySelectorAll("#approval .approve")) {
  const box = card.closest(".card").getBoundingClientRect();
  const around = document.getElementById("approval").getBoundingClientRect();
  if (around.height < 120) found.push(`no room to decide: ${around.height}`);
  if (box.width > around.width) found.push("a card is wider than its place");
}
return found;
"""


def faults(tab: Tab) -> list[str]:
    """What is wrong with how the page looks now."""
    return tab.js(FAULTS)


def hour(server: Served, tab: Tab, gate: Path, files: Path) -> Iterator[str]:
    """Walk; yields what was done, when the page shows it.

    Args:
        server: it has `gated_model`.
        tab: a page with a new conversation.
        gate: the file that lets `hold` go on.
        files: an empty folder, for files to upload.
    """
    tab.sees_some(".hello")
    yield "1 a new conversation"
    tab.say(f"think {TABLE}")
    tab.sees(".prose h2", "Tests")
    yield "2 an answer with a table, a list and code"
    tab.say("plan read the notes of March, find what is missing in them, write it down")
    tab.say("read missing.txt")
    tab.sees_some(".call.bad")
    yield "3 a plan, and a call that failed"
    (server.folder / "notes.txt").write_text("".join(f"line {number}\n" for number in range(30)), encoding="utf-8")
    tab.say("edit notes.txt: line 7 -> line seven, which is longer than it was before and than a telephone is wide")
    tab.sees_some("#approval .card.armed")
    yield "4 an edit asks, with its diff"
    tab.click("#approval .always summary")
    tab.sees_some("#approval .always button")
    yield "5 what always can cover"
    tab.click("#approval .edits")
    tab.sees_no("#approval")
    tab.settled()
    yield "6 edits are accepted"
    tab.say("run python3 -c 'print(1 / 0)'")
    tab.sees_some("#approval .card.armed")
    yield "7 a command asks"
    tab.approve()
    yield "8 a command has failed"
    picture = files / "a picture of the receipt of the third of March.txt"
    picture.write_text("19.99\n", encoding="utf-8")
    tab.upload(picture)
    tab.until(lambda: any("receipt" in text for text in tab.texts("#files li")))
    tab.say("ask Which color shall the report have?: red, blue, the same as last year")
    tab.sees_some("#approval .option")
    yield "9 a file is there, and the agent asks"
    tab.click("#approval .option")
    tab.answered()
    tab.send("hold I look at the report | and now it is done.")
    tab.sees_in("article.assistant .prose", "I look at the report")
    tab.send("say a word about February too, because it was short, and nobody looked at it")
    tab.sees_some("#queue li")
    yield "10 a message waits while the agent writes"
    tab.find("#text").send_keys(Keys.ESCAPE)
    tab.sees_some("#held")
    yield "11 stopped"
    tab.click("#go-on")
    tab.sees_no("#held")
    tab.settled()
    tab.js("[...document.querySelectorAll('article.user .change button')].at(-2).click()")
    tab.sees_some("#editing")
    yield "12 a message is edited"
    tab.find("#edit-no").click()
    tab.js("document.getElementById('mode').value = 'plan'; document.getElementById('mode').onchange()")
    tab.until(lambda: tab.js("return document.body.dataset.mode") == "plan")
    tab.say("plan round in one place, say so in the README")
    tab.sees_some("#carry")
    yield "13 a plan waits for a word"
    tab.click("#carry-out")
    tab.sees_no("#carry")
    tab.settled()
    tab.write("x" * 20_001)
    tab.click("#send")
    tab.sees_in("#notice", "A message may have")
    tab.write("")
    yield "14 a message that is too long"
    tab.click("#menu summary")
    tab.click("#rename")
    tab.sees_some("#asked")
    yield "15 a title"
    tab.click("#asked-no")
    gate.touch()
