// The page. What models, files and users say becomes text nodes and nothing else; no HTML is made from text in this file.

const $ = (id) => document.getElementById(id);
const state = { id: null, items: [], nodes: [], approval: null, running: false, socket: null, retry: 0 };

// -- elements ---------------------------------------------------------------------------------------------------

/** The only way of text onto the page, with nothing in it that hides or reorders: what is approved is what is read. */
const put = (node, ...children) => node.append(...children
  .filter((child) => child !== null && child !== undefined)
  .map((child) => child instanceof Node ? child : visible(String(child))));

function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  put(node, ...children);
  return node;
}

// An emoji's joiner and selector stay, where they follow one.
const EMOJI = "\\u00a9\\u00ae\\u2190-\\u2bff\\u3030\\u303d\\u3297\\u3299\\u{1f000}-\\u{1faff}";
const HIDDEN = new RegExp(
  "(?![\\t\\n\\u200d\\ufe0f])[\\p{Cc}\\p{Cs}\\p{Default_Ignorable_Code_Point}\\p{Bidi_Control}\\u2028\\u2029\\u2800\\ufff9-\\ufffb]" +
  `|(?<![${EMOJI}])\\ufe0f|(?<![${EMOJI}])(?<![${EMOJI}]\\ufe0f)\\u200d`,
  "gu",
);

/** Control and invisible characters as codes, as in the terminal: `\\x1b`, `\\u200b`. */
const visible = (text) => text.replace(HIDDEN, (char) => {
  const code = char.codePointAt(0).toString(16);
  if (code.length < 3) return `\\x${code.padStart(2, "0")}`;
  return code.length < 5 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
});

/** A name stays on its line. */
const oneLine = (text) => visible(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");

/** Fenced blocks, headings, `code` and **bold** of a text, as nodes. Everything else stays as it was written. */
function formatted(text) {
  const out = element("div", "prose");
  let fence = "";
  let lines = [];
  const flush = () => {
    const block = fence ? element("pre", "", lines.join("\n")) : paragraph(lines.join("\n"));
    if (fence || block.hasChildNodes()) out.append(block);
    lines = [];
  };
  for (const line of text.split("\n")) {
    const [, ticks, info] = line.match(/^\s*(`{3,})([^`]*)$/) ?? [];
    if (ticks && (!fence || (ticks.length >= fence.length && !info.trim()))) {
      flush();
      fence = fence ? "" : ticks;
    } else {
      lines.push(line);
    }
  }
  flush();
  return out;
}

function paragraph(text) {
  const block = element("p");
  for (const part of text.replace(/^\n+|\n+$/g, "").split(/(`+[^`\n]+`+|\*\*[^*\n]+\*\*|^#{1,6} .+$)/m)) {
    if (/^`+[^`]+`+$/.test(part)) block.append(element("code", "", part.replace(/^`+|`+$/g, "")));
    else if (/^\*\*[^*]+\*\*$/.test(part)) block.append(element("strong", "", part.slice(2, -2)));
    else if (/^#{1,6} ./.test(part)) block.append(element("strong", "heading", part.replace(/^#+ /, "")));
    else if (part) put(block, part);
  }
  return block;
}

const STATES = {
  running: "running", waiting: "waits for you", success: "done", failed: "failed", retried: "tried again",
  denied: "denied", interrupted: "interrupted", unknown: "outcome unknown",
};

function summary(item) {
  try {
    const args = JSON.parse(item.args);
    return String(args.path ?? args.command ?? args.pattern ?? args.description ?? args.name ?? "");
  } catch {
    return ""; // cut off, as long arguments are
  }
}

function itemNode(item) {
  if (item.kind === "tool") {
    const head = element(
      "summary", "",
      element("span", "tool", oneLine(item.tool)),
      element("span", "what", oneLine(summary(item))),
      element("span", `state ${item.state}`, STATES[item.state] ?? item.state),
    );
    const node = element("details", "call", head, element("pre", "", item.args));
    if (item.text) node.append(element("pre", "result", item.text));
    if (item.depth) node.classList.add("child");
    return node;
  }
  const node = element("article", item.kind);
  node.append(item.kind === "assistant" ? formatted(item.text) : element("p", "", item.text));
  return node;
}

function place(index) {
  const list = $("items");
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  const old = state.nodes[index];
  const node = itemNode(state.items[index]);
  if (old) {
    if (old.open) node.open = true;
    const focused = old.contains(document.activeElement);
    old.replaceWith(node);
    if (focused) node.querySelector("summary")?.focus();
  } else {
    list.append(node);
  }
  state.nodes[index] = node;
  if (atEnd) list.scrollTop = list.scrollHeight;
}

const late = new Set();

/** Once a frame: words come faster than a long text can be laid out again. */
function placeSoon(index) {
  if (!late.size) requestAnimationFrame(placeLate);
  late.add(index);
}

function placeLate() {
  const indexes = [...late];
  late.clear();
  indexes.forEach(place);
}

function showItems() {
  state.nodes = [];
  late.clear();
  $("items").replaceChildren();
  if (!state.items.length) {
    $("items").append(element("p", "empty hello", "Write a message, or drop a file on the page. “help” says what there is."));
  }
  state.items.forEach((_, index) => place(index));
  $("items").scrollTop = $("items").scrollHeight;
}

// -- approvals --------------------------------------------------------------------------------------------------

function diffNode(diff) {
  const pre = element("pre", "diff");
  for (const line of diff.split("\n")) {
    const head = line.startsWith("---") || line.startsWith("+++") || line.startsWith("@@");
    const kind = head ? "head" : line.startsWith("+") ? "add" : line.startsWith("-") ? "remove" : "";
    pre.append(element("span", kind, `${line}\n`));
  }
  return pre;
}

const LONG = 2000;

/** Every argument that the diff does not show. A long one scrolls, and says how long it is. */
function argsNode(args, pictured) {
  const list = element("dl", "args");
  for (const [name, value] of Object.entries(args)) {
    if (pictured.includes(name)) continue;
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
    const size = text.length > LONG ? ` (${text.length} characters: scroll to its end)` : "";
    list.append(element("dt", "", oneLine(name), size), element("dd", "", element("pre", "", text)));
  }
  return list.hasChildNodes() ? list : null;
}

function questionNode(question, verdicts, done) {
  const who = question.subagent ? `The subagent ${oneLine(question.subagent)} wants to use` : "The agent wants to use";
  const head = element("p", "ask", `${who} `, element("code", "", oneLine(question.tool)));
  if (question.args.path) head.append(" on ", element("code", "", oneLine(String(question.args.path))));
  const diff = question.diff === null ? null : diffNode(question.diff || "(no line would change)");
  const args = argsNode(question.args, question.pictured ?? []);
  const reason = element("input", "reason");
  reason.placeholder = "Why not? (the agent is told)";
  reason.setAttribute("aria-label", "Reason for denying");
  reason.maxLength = 2000;
  const approve = element("button", "approve", "Approve");
  const deny = element("button", "danger deny", "Deny");
  approve.title = "A";
  deny.title = "D";
  const card = element("div", "card", head, args, diff, element("div", "answer", reason, deny, approve));
  card.tabIndex = -1;
  const say = (verdict) => {
    verdicts[question.path] = verdict;
    for (const node of [reason, deny, approve]) node.disabled = true;
    (verdict.approve ? approve : deny).classList.add("chosen");
    done();
  };
  if (question.reason) head.after(element("p", "why", question.reason));
  approve.onclick = () => say({ approve: true });
  deny.onclick = () => say({ approve: false, reason: reason.value.trim() });
  reason.onkeydown = (event) => {
    if (event.key === "Enter") deny.click();
    event.stopPropagation();
  };
  card.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.key.length > 1 || event.key === " ") return;
    const button = { a: approve, d: deny }[event.key];
    if (!button || event.repeat || !card.classList.contains("armed")) return $("text").focus();
    event.preventDefault();
    button.click();
  };
  return card;
}

/** A question of the model: its options as buttons, and a line for other words. */
function choiceNode(question, verdicts, done) {
  const who = question.subagent ? `The subagent ${oneLine(question.subagent)} asks` : "The agent asks";
  const own = element("input", "reason");
  own.placeholder = "Your own words";
  own.setAttribute("aria-label", "Answer in your own words");
  own.maxLength = 2000;
  const say = (answer, chosen) => {
    if (!answer) return;
    verdicts[question.path] = { answer };
    for (const node of card.querySelectorAll("button, input")) node.disabled = true;
    chosen.classList.add("chosen");
    done();
  };
  const options = question.choice.options.map((option) => {
    const button = element("button", "option", option);
    button.onclick = () => say(option, button);
    return button;
  });
  const send = element("button", "own", "Answer");
  send.onclick = () => say(own.value.trim(), send);
  own.onkeydown = (event) => {
    if (event.key === "Enter") send.click();
    event.stopPropagation();
  };
  const card = element("div", "card choice", element("p", "ask", who), element("p", "text", question.choice.text),
    element("div", "answer", ...options), element("div", "answer", own, send));
  card.tabIndex = -1;
  return card;
}

// Milliseconds: until then a key is taken for the rest of a sentence, and goes to where sentences are written.
const ARMED_AFTER = 800;

function showApproval(approval) {
  state.approval = approval;
  $("approval").hidden = !approval;
  $("approval").replaceChildren();
  if (!approval) return;
  const verdicts = {};
  const cards = approval.questions.map((question) => (question.choice ? choiceNode : questionNode)(question, verdicts, () => {
    const open = cards.find((card) => !card.querySelector("button").disabled);
    if (open) open.focus();
    else if (!send({ type: "decide", approval: approval.id, verdicts })) showApproval(approval);
  }));
  const many = cards.length > 1 ? ` Each of the ${cards.length} calls needs an answer.` : "";
  $("approval").append(element("h3", "", "Waiting for you."), element("span", "many", many), ...cards);
  $("items").scrollTop = $("items").scrollHeight;
  if (!$("text").value) cards[0].focus();
  setTimeout(() => cards.forEach((card) => card.classList.add("armed")), ARMED_AFTER);
}

// -- the rest of the page ---------------------------------------------------------------------------------------

const MARKS = { pending: "○", in_progress: "◐", completed: "●", blocked: "⊘" };

function showTodos(todos) {
  $("no-todos").hidden = todos.length > 0;
  $("todos").replaceChildren(...todos.map((todo) => {
    const mark = element("span", "mark", MARKS[todo.status] ?? "○");
    mark.title = todo.status.replace("_", " ");
    return element("li", todo.status, mark, element("span", "", todo.content));
  }));
}

const size = (bytes) => {
  if (bytes === null) return "";
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`;
};

let asked = 0;

async function showFiles() {
  const id = state.id;
  const number = ++asked;
  const response = await fetch(`/api/sessions/${id}/files`).catch(() => null);
  if (!response?.ok || id !== state.id || number !== asked) return;
  const { files, more } = await response.json();
  $("no-files").hidden = files.length > 0;
  $("files").replaceChildren(...files.map((file) => {
    const link = element("a", "", oneLine(file.path));
    link.href = `/api/sessions/${id}/files/${file.path.split("/").map(encodeURIComponent).join("/")}`;
    link.onclick = (event) => {
      event.preventDefault();
      download(link.href, file.path.split("/").pop());
    };
    return element("li", "", link, element("span", "size", size(file.size)));
  }));
  if (more) $("files").append(element("li", "empty", "… and more"));
}

/** Fetched here, so that a refusal is told on the page. */
async function download(address, name) {
  const response = await fetch(address).catch(() => null);
  if (!response?.ok) return notice(await refusal(response));
  const link = element("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** Why a request was not done, as the server says it. */
async function refusal(response) {
  if (!response) return "The server does not answer.";
  const answer = await response.json().catch(() => ({}));
  return answer.error ?? `The server refused this (${response.status}).`;
}

function showTitle(title) {
  $("title").textContent = oneLine(title || "New session");
  document.title = title ? `${oneLine(title)} · deep` : "deep";
}

function showRunning(running) {
  state.running = running;
  if (!running) placeLate(); // at its end an answer is whole, also on a page that is not looked at and has no frames
  $("send").hidden = running;
  $("stop").hidden = !running;
  // Said when it is whole: a reader that hears every word of a growing text anew is of no use.
  $("items").setAttribute("aria-busy", running);
  if (!running && document.activeElement === document.body) $("text").focus();
}

let noticeTimer = 0;

function notice(text) {
  clearTimeout(noticeTimer);
  $("notice").textContent = visible(text);
  $("notice").hidden = !text;
  if (text) noticeTimer = setTimeout(() => notice(""), 12000);
}

function connection(text) {
  $("connection").textContent = text;
  $("connection").hidden = !text;
}

async function showSessions() {
  const response = await fetch("/api/sessions").catch(() => null);
  if (!response?.ok) return notice(await refusal(response));
  const sessions = await response.json();
  $("session-list").replaceChildren(...sessions.map((session) => {
    const link = element("a", session.id === state.id ? "current" : "", oneLine(session.title || "New session"));
    link.href = `#${session.id}`;
    return element("li", "", link);
  }));
  return sessions;
}

// -- the session ------------------------------------------------------------------------------------------------

function hear(event) {
  switch (event.type) {
    case "snapshot":
      state.items = event.items;
      state.retry = 0;
      document.body.dataset.session = event.id;
      connection("");
      showTitle(event.title);
      showItems();
      showTodos(event.todos);
      showRunning(event.running);
      $("resume").hidden = !event.interrupted;
      showApproval(event.approval);
      showFiles();
      break;
    case "item":
      if (!state.items.length) $("items").replaceChildren();
      state.items[event.index] = event.item;
      place(event.index);
      break;
    case "delta":
      state.items[event.index].text += event.text;
      placeSoon(event.index);
      break;
    case "state":
      showTitle(event.title);
      showTodos(event.todos);
      showRunning(event.running);
      $("resume").hidden = !event.interrupted;
      if (event.approval?.id !== state.approval?.id) showApproval(event.approval);
      showSessions();
      break;
    case "todos":
      showTodos(event.todos);
      break;
    case "files":
      showFiles();
      break;
    case "refused":
      notice(event.text);
      if (event.code !== "malformed") connect();
      break;
  }
}

function send(message) {
  if (state.socket?.readyState !== WebSocket.OPEN) {
    notice("Not connected. This was not sent.");
    return false;
  }
  state.socket.send(JSON.stringify(message));
  return true;
}

function connect() {
  state.socket?.close();
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/api/sessions/${state.id}/socket`);
  state.socket = socket;
  if (!state.retry) connection("Connecting …");
  socket.onmessage = (message) => state.socket === socket && hear(JSON.parse(message.data));
  socket.onclose = async () => {
    if (state.socket !== socket) return;
    connection("Reconnecting …");
    const wait = Math.min(500 * 2 ** state.retry++, 10000);
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (state.socket !== socket) return;
    const there = await fetch(`/api/sessions/${state.id}`).catch(() => null);
    if (state.socket !== socket) return;
    if (there?.status === 404) location.hash = "";
    else connect();
  };
}

async function create() {
  const response = await fetch("/api/sessions", { method: "POST" }).catch(() => null);
  if (response?.ok) location.hash = (await response.json()).id;
  else notice(await refusal(response));
}

async function open() {
  const sessions = await showSessions();
  const wanted = location.hash.slice(1);
  if (!wanted || (sessions && !sessions.some((session) => session.id === wanted))) {
    if (sessions?.length) location.hash = sessions[0].id;
    else await create();
    return;
  }
  showPanel("");
  if (state.id !== wanted) {
    state.id = wanted;
    state.approval = null;
    $("approval").hidden = true;
    $("uploads").replaceChildren();
    connect();
  }
  showSessions();
  $("text").focus();
}

// -- uploads ----------------------------------------------------------------------------------------------------

async function upload(files) {
  await Promise.all([...files].map(async (file) => {
    const line = element("li", "uploading", element("span", "", oneLine(file.name)), element("span", "size", "uploading …"));
    $("uploads").append(line);
    const where = `/api/sessions/${state.id}/uploads?name=${encodeURIComponent(file.name)}`;
    const response = await fetch(where, { method: "POST", body: file }).catch(() => null);
    if (response?.ok) return line.remove();
    const dismiss = element("button", "quiet", "×");
    dismiss.setAttribute("aria-label", `Dismiss: ${oneLine(file.name)}`);
    dismiss.onclick = () => line.remove();
    const why = response ? await refusal(response) : `${file.name}: the upload broke off.`;
    line.className = "failed";
    line.replaceChildren(element("span", "", why), dismiss);
  }));
}

$("attach").onclick = () => $("picker").click();
$("picker").onchange = () => {
  upload($("picker").files);
  $("picker").value = "";
};

let dragged = 0;
const carriesFiles = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
addEventListener("dragenter", (event) => { if (carriesFiles(event)) { dragged++; $("drop").hidden = false; } });
addEventListener("dragleave", (event) => { if (carriesFiles(event) && --dragged <= 0) $("drop").hidden = true; });
addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
addEventListener("drop", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  dragged = 0;
  $("drop").hidden = true;
  upload(event.dataTransfer.files);
});

// -- keyboard and buttons ---------------------------------------------------------------------------------------

function grow() {
  $("text").style.height = "auto";
  $("text").style.height = `${Math.min($("text").scrollHeight, 200)}px`;
}

$("text").oninput = grow;
$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("composer").requestSubmit();
  }
};
const MOST = 20000;

$("composer").onsubmit = (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text) return;
  if (text.length > MOST) {
    return notice(`A message may have ${MOST} characters, and this one has ${text.length}: upload it as a file.`);
  }
  if (state.running) return notice("The agent is still working: wait for it, or stop it.");
  if (state.approval) return notice("A call waits for your answer: approve or deny it first.");
  if (send({ type: "message", text })) {
    $("text").value = "";
    notice("");
    grow();
  }
};
$("resume").onclick = () => send({ type: "resume" });
$("stop").onclick = () => send({ type: "stop" });
$("new").onclick = create;

/** On a narrow window: this side in front of the conversation, or with "" none. */
function showPanel(name) {
  for (const side of ["sessions", "side"]) {
    document.body.classList.toggle(`show-${side}`, side === name);
    $(`show-${side}`).setAttribute("aria-expanded", side === name);
  }
}

for (const side of ["sessions", "side"]) {
  $(`show-${side}`).onclick = () => showPanel(document.body.classList.contains(`show-${side}`) ? "" : side);
}
$("session-list").onclick = () => showPanel("");
addEventListener("keydown", (event) => {
  if (event.altKey && event.code === "KeyN") { event.preventDefault(); create(); }
  if (event.key !== "Escape") return;
  if (document.body.matches(".show-sessions, .show-side")) showPanel("");
  else if (state.running) send({ type: "stop" });
});
addEventListener("hashchange", open);
open();
