// The calls that wait for the user, as cards with what they would change.

import { diffNode, readDiff } from "./view.js";
import { button, element, oneLine } from "./text.js";

const LONG = 2000; // characters of an argument, above which its length is said
const REASON = 2000; // most characters of a reason or an answer
// Milliseconds: until then a key is taken for the rest of a sentence, and goes to where sentences are written.
const ARMED_AFTER = 800;

/** Every argument that the diff does not show. A long one scrolls, and says how long it is. */
function argsNode(args, pictured) {
  const list = element("dl", "args");
  for (const [name, value] of Object.entries(args)) {
    if (pictured.includes(name)) continue;
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
    const size = text.length > LONG ? ` (${text.length} characters: scroll to its end)` : "";
    const pre = element("pre", "", text);
    pre.tabIndex = 0;
    list.append(element("dt", "", oneLine(name), size), element("dd", "", pre));
  }
  return list.hasChildNodes() ? list : null;
}

function lineOf(label, placeholder) {
  const input = element("input", "reason");
  input.placeholder = placeholder;
  input.setAttribute("aria-label", label);
  input.maxLength = REASON;
  return input;
}

/** What *always* could cover, the narrowest first: the terminal's rules, in its words. */
function alwaysNode(question, approve, canKeep) {
  if (!question.always?.length) return null;
  const keep = element("input");
  keep.type = "checkbox";
  const rules = question.always.map((rule) => {
    const node = button("option", rule, () => approve(rule, keep.checked), oneLine(rule));
    node.removeAttribute("title");
    return element("li", "", node);
  });
  return element("details", "always", element("summary", "", "Approve always …"),
    element("p", "soft", "Not asked again, from now on:"), element("ul", "", ...rules),
    canKeep ? element("label", "", keep, " also in later conversations of this folder") : null);
}

function callCard(question, decide, focusMessage, rules) {
  const who = question.subagent ? `The subagent ${oneLine(question.subagent)} wants to use` : "The agent wants to use";
  const head = element("p", "ask", `${who} `, element("code", "", oneLine(question.tool)));
  if (question.args.path) head.append(" on ", element("code", "", oneLine(String(question.args.path))));
  const reason = lineOf("Reason for denying", "Why not? The agent reads it.");
  const say = (verdict, chosen) => {
    for (const node of card.querySelectorAll("button, input")) node.disabled = true;
    chosen.classList.add("chosen");
    decide(verdict);
  };
  const approve = button("approve", "Approve", () => say({ approve: true }, approve));
  const deny = button("danger deny", "Deny", () => say({ approve: false, reason: reason.value.trim() }, deny));
  approve.title = "Key A";
  deny.title = "Key D";
  const always = alwaysNode(question, (rule, keep) => say({ approve: true, always: rule, keep }, approve), rules.can_keep);
  const edits = question.edit
    ? button("option edits", "Approve, accept edits", () => { edits.classList.add("chosen"); rules.acceptEdits(); })
    : null;
  if (edits) edits.title = "Key E: approve this and every later edit of this conversation";
  const card = element("div", "card", head,
    ...(question.reasons ?? [{ text: question.reason }]).map((each) => element("p", "why", each.text || each.kind || "")),
    argsNode(question.args, question.pictured ?? []),
    question.diff === null ? null : diffNode(readDiff(question.diff || "(no line would change)")),
    element("div", "answer", reason, deny, edits, approve), always);
  reason.onkeydown = (event) => {
    if (event.key === "Enter") deny.click();
    event.stopPropagation();
  };
  card.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key.length > 1 || event.key === " ") return;
    const chosen = { a: approve, d: deny, e: edits }[event.key.toLowerCase()];
    if (!chosen || event.repeat || !card.classList.contains("armed")) return focusMessage();
    event.preventDefault();
    chosen.click();
  };
  return card;
}

/** A question of the model: its options as buttons, and a line for other words. */
function choiceCard(question, decide) {
  const who = question.subagent ? `The subagent ${oneLine(question.subagent)} asks` : "The agent asks";
  const own = lineOf("Answer in your own words", "Your own words");
  const say = (answer, chosen) => {
    if (!answer) return;
    for (const node of card.querySelectorAll("button, input")) node.disabled = true;
    chosen.classList.add("chosen");
    decide({ answer });
  };
  const options = question.choice.options.map((option) => {
    const node = button("option", option, () => say(option, node), oneLine(option));
    node.removeAttribute("title");
    return node;
  });
  const send = button("own", "Answer", () => say(own.value.trim(), send));
  own.onkeydown = (event) => {
    if (event.key === "Enter") send.click();
    event.stopPropagation();
  };
  const card = element("div", "card choice", element("p", "ask", who), element("p", "text", question.choice.text),
    element("div", "answer options", ...options), element("div", "answer", own, send));
  return card;
}

/**
 * The cards of an approval.
 *
 * @param approval what the server asks: `id` and `questions`
 * @param answer receives all verdicts once each question has one
 * @param focusMessage moves the focus to the message
 * @param rules `can_keep`, and `acceptEdits`, which takes that mode
 */
export function approvalCards(approval, answer, focusMessage, rules) {
  const verdicts = {};
  const cards = approval.questions.map((question) => {
    const decide = (verdict) => {
      verdicts[question.path] = verdict;
      const open = cards.find((card) => !card.querySelector("button").disabled);
      if (open) open.focus();
      else answer(verdicts);
    };
    const card = question.choice ? choiceCard(question, decide) : callCard(question, decide, focusMessage, rules);
    card.tabIndex = -1;
    return card;
  });
  setTimeout(() => cards.forEach((card) => card.classList.add("armed")), ARMED_AFTER);
  return cards;
}
