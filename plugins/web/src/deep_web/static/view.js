// The items of a conversation as elements.

import { changedLines, exitCode, hasFailed, readArgs, subject } from "./fold.js";
import { button, copyButton, element, oneLine, prose, visible } from "./text.js";

const STATES = {
  running: "running", waiting: "waits for you", success: "done", failed: "failed", retried: "tried again",
  denied: "denied", interrupted: "interrupted", unknown: "outcome unknown",
};
const MARKS = { running: "◌", waiting: "?", success: "✓", interrupted: "–", unknown: "?" };
const SHORT = 40; // lines of a diff or a result that are shown at once

/** Lines of a diff, colored and with their sign, so that color is not all that tells them apart. */
export function diffNode(lines) {
  const pre = element("pre", "diff");
  pre.tabIndex = 0;
  for (const { sign, text } of lines) {
    const kind = { "+": "add", "-": "remove", "@": "head" }[sign] ?? "";
    pre.append(element("span", kind, `${sign === "@" ? "" : `${sign} `}${text}\n`));
  }
  return pre;
}

/** The lines of a unified diff of one file, without its name: the card has it. */
export const readDiff = (diff) => diff.replace(/^---.*\n\+\+\+.*\n/, "").split("\n").map((line) => {
  const isHead = /^(@@|\\)/.test(line);
  return isHead ? { sign: "@", text: line } : { sign: /^[+-]/.test(line) ? line[0] : " ", text: line.slice(1) };
});

/** Long text with its first lines, and a button that shows the rest. */
function long(text, className) {
  const lines = text.split("\n");
  const pre = element("pre", className, lines.slice(0, SHORT).join("\n"));
  pre.tabIndex = 0;
  if (lines.length <= SHORT) return pre;
  const more = button("quiet more", `Show all ${lines.length} lines`, () => {
    pre.textContent = visible(text);
    more.remove();
  });
  return element("div", "", pre, more);
}

function callBody(item, loadWhole) {
  const args = readArgs(item);
  const lines = changedLines(args);
  const body = element("div", "body");
  if (lines) {
    const shown = lines.slice(0, SHORT * 5);
    body.append(diffNode(shown));
    if (shown.length < lines.length) body.append(element("p", "soft", `… and ${lines.length - shown.length} more lines`));
  } else if (item.tool === "execute" && args?.command) {
    body.append(element("pre", "command", `$ ${args.command}`));
  } else if (item.args && item.args !== "{}") {
    body.append(long(args ? JSON.stringify(args, null, 2) : item.args, "args"));
  }
  if (item.text && !(lines && item.state === "success")) body.append(long(item.text, hasFailed(item) ? "result bad" : "result"));
  if (!args || item.text.length >= 1900) {
    const whole = button("quiet more", "Show this call whole", async () => {
      const found = await loadWhole(item);
      if (!found) return;
      body.replaceChildren(long(found.args, "args"), long(found.result, "result"));
    });
    body.append(whole);
  }
  return body;
}

/** A call as a line that opens. A command that failed has a red mark, whatever the tool says. */
export function callNode(item, loadWhole) {
  const code = exitCode(item);
  const failed = hasFailed(item);
  const mark = element("span", "mark", failed ? "✗" : MARKS[item.state] ?? "·");
  mark.setAttribute("aria-hidden", "true");
  const node = element("details", `call ${failed ? "bad" : item.state}`, element(
    "summary", "", mark,
    item.agent || item.depth ? element("span", "agent", oneLine(item.agent || "subagent")) : null,
    element("span", "tool", oneLine(item.tool)),
    element("span", "what", oneLine(subject(item))),
    element("span", "state", code === null ? STATES[item.state] ?? item.state : `exit code ${code}`),
  ));
  if (item.depth) node.classList.add("child");
  node.dataset.state = failed ? "failed" : item.state;
  let made = false;
  const fill = () => {
    if (!made) node.append(callBody(item, loadWhole));
    made = true;
  };
  node.ontoggle = () => node.open && fill();
  const isShort = failed || changedLines(readArgs(item)) !== null || item.tool === "execute";
  if (isShort && !item.depth && item.state !== "running") {
    fill();
    node.open = true;
  }
  return node;
}

/** An item of the conversation. `change` edits a message of the user, or sends it again. */
export function itemNode(item, loadWhole, change) {
  if (item.kind === "tool") return callNode(item, loadWhole);
  if (item.kind === "thinking") {
    return element("details", "thinking", element("summary", "", "Thinking"), element("p", "", item.text));
  }
  if (item.kind !== "assistant") {
    const node = element("article", item.kind, element("p", "", item.text));
    if (item.kind === "user") node.setAttribute("aria-label", "You");
    if (item.begins) {
      node.append(element("div", "change",
        button("quiet", "Edit this message", () => change(item, true), "Edit"),
        button("quiet", "Send this message again", () => change(item, false), "Again")));
    }
    if (item.kind === "error") node.setAttribute("role", "alert");
    return node;
  }
  const node = element("article", "assistant", prose(item.text));
  node.setAttribute("aria-label", "The agent");
  if (item.cut) node.append(element("p", "soft cut", "This text was cut off here."));
  node.append(copyButton(() => item.text, "Copy this answer"));
  return node;
}
