// The page: one conversation at a time, beside the list of all. The server has everything; this shows it.

import { approvalCards } from "./approvals.js";
import { Fold } from "./fold.js";
import { button, element, oneLine, visible } from "./text.js";
import { itemNode } from "./view.js";

const $ = (id) => document.getElementById(id);
const SILENCE = 40000; // milliseconds: the server says something every 15 seconds
const LONGEST_WAIT = 10000; // milliseconds between two attempts to connect
const FRAME = 200; // milliseconds: a page in the background has no frames
const COMMANDS_LOOK = 3000; // milliseconds between two looks at commands that run
const MOST = 20000; // characters of a message

const page = {
  id: null,
  fold: new Fold(),
  coming: null, // the fold of a replay, until it is whole
  boot: null, // the server process that the fold's numbers are of
  answering: null, // the server process that answers now
  state: {},
  nodes: [],
  opened: new Map(), // by key of an item: whether the user opened or closed it
  socket: null,
  retry: 0,
  sending: [], // messages that are on their way
  editing: null, // the message that the next one replaces
  rewinds: 0, // those of the fold that are shown
  info: { models: [], examples: [], max_upload_bytes: 0 },
};

// -- the server -------------------------------------------------------------------------------------------------------

/** Ask the server; null if it refused or does not answer, which the page then says. */
async function ask(method, path, body) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  const options = { method, headers, body: body === undefined ? undefined : JSON.stringify(body) };
  const response = await fetch(`/api/${path}`, options).catch(() => null);
  if (response?.ok) return response.status === 204 || response.status === 202 ? {} : response.json();
  notice(await refusal(response));
  return null;
}

/** Why a request was not done, as the server says it. */
async function refusal(response) {
  if (!response) return "The server does not answer.";
  const answer = await response.json().catch(() => ({}));
  return answer.error ?? `The server refused this (${response.status}).`;
}

const here = (path = "") => `sessions/${page.id}${path}`;

// -- the conversation -------------------------------------------------------------------------------------------------

const list = $("items");
const isAtEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < 80;

function toEnd() {
  list.scrollTop = list.scrollHeight;
}

let stays = true; // at the end, also when there is less room: a keyboard or a question opens
let room = "";
const roomNow = () => `${list.clientWidth} ${list.clientHeight}`;
list.onscroll = () => { if (room === roomNow()) stays = isAtEnd(); }; // a new size scrolls too
new ResizeObserver(() => {
  room = roomNow();
  if (stays) toEnd();
  grow();
}).observe(list);

async function loadWhole(item) {
  return ask("GET", here(`/calls/${encodeURIComponent(item.call)}?path=${encodeURIComponent(item.path)}`));
}

function makeNode(index) {
  const item = page.fold.items[index];
  const node = itemNode(item, loadWhole, change);
  if (node.tagName === "DETAILS") {
    const opened = page.opened.get(item.key);
    if (opened !== undefined) node.open = opened;
    node.querySelector("summary").addEventListener("click", () => page.opened.set(item.key, !node.open));
  }
  return node;
}

/** Put an item onto the page. Neighboring calls are one group. */
function place(index) {
  const old = page.nodes[index];
  const node = makeNode(index);
  page.nodes[index] = node;
  if (old) {
    const focused = old.contains(document.activeElement);
    old.replaceWith(node);
    if (focused) node.querySelector("summary")?.focus();
    return;
  }
  if (page.fold.items[index].kind !== "tool") return list.append(node);
  const above = page.fold.items[index - 1]?.kind === "tool" ? page.nodes[index - 1].parentElement : null;
  if (above) return above.append(node);
  const group = element("div", "calls", node);
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", "Tool calls");
  list.append(group);
}

function placeAll() {
  page.nodes = [];
  page.rewinds = page.fold.rewinds;
  list.replaceChildren();
  page.fold.changes();
  page.fold.items.forEach((_, index) => place(index));
  showSending();
}

let frame = 0;
let timer = 0;

/** Soon: words come faster than a long text can be laid out again. */
function placeSoon() {
  if (frame || timer) return;
  frame = requestAnimationFrame(placeChanges);
  timer = setTimeout(placeChanges, FRAME);
}

function placeChanges() {
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  frame = timer = 0;
  const follow = isAtEnd();
  const changed = page.fold.changes();
  if (page.rewinds !== page.fold.rewinds) placeAll();
  else for (const index of changed) place(index);
  if (changed.length) showSending();
  if (follow) toEnd();
}

/** Messages that are on their way stand below, until they come back as part of the conversation. */
function showSending() {
  for (const node of list.querySelectorAll(".sending")) node.remove();
  for (const message of page.sending.filter((each) => each.session === page.id && (each.mode === "send" || each.lost))) {
    const node = element("article", "user sending", element("p", "", message.text));
    node.setAttribute("aria-label", message.lost ? "You, not sent" : "You, being sent");
    if (message.lost) {
      node.append(element("p", "unsent", "Not sent: the server does not answer. It is sent when the server is back.",
        button("quiet", "Send now", () => flush()), button("quiet", "Take back", () => takeBack(message))));
    }
    list.append(node);
  }
  const empty = list.querySelector(".hello");
  if (list.children.length > (empty ? 1 : 0)) empty?.remove();
  else if (!empty && page.id) list.append(hello());
  showSign();
}

/** What an empty conversation offers. */
function hello() {
  const examples = page.info.examples.map((text) => button("example", text, () => {
    $("text").value = text;
    grow();
    $("text").focus();
  }));
  const where = page.info.folder ? element("p", "soft", `In ${oneLine(page.info.folder)}`) : null;
  return element("div", "hello", element("p", "big", "What shall we do?"), where, element("div", "examples", ...examples));
}

function showSign() {
  const writes = page.fold.unfinished !== null;
  const calls = page.fold.items.filter((item) => item.state === "running" && !item.depth);
  const isSending = page.sending.some((each) => each.session === page.id && each.mode === "send");
  const isRunning = page.fold.running || page.state.status === "running";
  $("sign").hidden = !(isSending || isRunning) || writes;
  $("sign-text").textContent = calls.length ? `Running ${oneLine(calls.at(-1).tool)}` : "Thinking";
  $("stop").hidden = !isRunning;
  // A message to a run under way is queued: the button says so.
  $("send").textContent = isRunning ? "Queue" : "Send";
  list.setAttribute("aria-busy", isRunning); // said when it is whole, not word by word
}

// -- the state --------------------------------------------------------------------------------------------------------

const TODO_MARKS = { pending: "○", in_progress: "◐", completed: "●", blocked: "⊘" };

function showTodos(todos) {
  $("no-todos").hidden = todos.length > 0;
  $("todos").replaceChildren(...todos.map((todo) => {
    const mark = element("span", "mark", TODO_MARKS[todo.status] ?? "○");
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", todo.status.replace("_", " "));
    return element("li", todo.status, mark, element("span", "", todo.content));
  }));
}

function showTitle(title) {
  $("title").textContent = oneLine(title || "New conversation");
  document.title = title ? `${oneLine(title)} · deep` : "deep";
}

const short = (count) => (count < 1000 ? String(count) : `${(count / 1000).toFixed(count < 10000 ? 1 : 0)}k`);

function showUsage(usage) {
  const parts = [];
  if (usage?.input_tokens || usage?.output_tokens) {
    parts.push(`${short(usage.input_tokens)} in, ${short(usage.output_tokens)} out`);
  }
  if (usage?.cost) parts.push(`$${usage.cost.toFixed(usage.cost < 0.1 ? 4 : 2)}`);
  if (usage?.context_used && usage?.context_window) {
    parts.push(`${Math.round((100 * usage.context_used) / usage.context_window)}% of the context`);
  }
  $("usage").textContent = parts.join(" · ");
}

function showModel(model) {
  const isChoice = page.info.models.length > 1;
  $("model-choice").hidden = !isChoice;
  $("model-name").textContent = isChoice ? "" : visible(model || page.info.model || "");
  if (isChoice && model && page.info.models.includes(model)) $("model").value = model;
}

function showApproval(approval) {
  $("approval").hidden = !approval;
  $("approval").replaceChildren();
  if (!approval) return;
  const answer = async (verdicts) => {
    const done = await ask("POST", here("/decisions"), { approval: approval.id, verdicts });
    if (!done && page.state.approval?.id === approval.id) showApproval(approval); // nothing was decided: ask again
  };
  const rules = { can_keep: page.state.can_keep, acceptEdits: () => chooseMode("accept-edits") };
  const cards = approvalCards(approval, answer, () => $("text").focus(), rules);
  const many = cards.length > 1 ? ` Each of the ${cards.length} calls needs an answer.` : "";
  $("approval").append(element("h2", "", "Waiting for you"), many ? element("span", "soft", many) : "", ...cards);
  toEnd();
  if (!$("text").value) cards[0].focus({ preventScroll: true });
}

const MODES = { ask: "Ask before each change", "accept-edits": "Accept edits", plan: "Plan" };

function showMode({ mode, keeps_edits, can_keep, rules, plan }) {
  const shown = mode ?? "ask";
  $("mode-choice").hidden = !page.info.modes?.length;
  $("mode").value = shown;
  document.body.dataset.mode = shown;
  const isNew = can_keep && shown !== "plan" && keeps_edits !== (shown === "accept-edits");
  $("keep-mode").hidden = !isNew;
  $("keep-mode").textContent = "Keep for this folder";
  $("carry").hidden = !plan;
  $("forget").hidden = !rules?.length;
  $("forget").title = (rules ?? []).map((rule) => oneLine(rule.about)).join("\n");
}

const chooseMode = (mode, keep = false) => ask("POST", here("/mode"), { mode, keep });

/** Leave plan mode, and let the agent do what it planned. */
async function carryOut(mode) {
  const text = page.state.plan;
  if (text && (await chooseMode(mode))) post(text, "send");
}

function showQueue({ queued = [], held = false }) {
  $("held").hidden = !held;
  $("queue").replaceChildren(...queued.map((text) => element("li", "", element("span", "soft", "Next: "), text)));
}

function takeState(state) {
  const old = page.state;
  page.state = state;
  if (page.coming) {
    page.coming.keep(page.fold);
    page.fold = page.coming;
    page.coming = null;
    page.boot = page.answering;
    const follow = isAtEnd() || !page.nodes.length;
    const top = list.scrollTop;
    placeAll();
    list.scrollTop = top;
    if (follow) toEnd();
  }
  if (state.interrupted) page.fold.settle();
  forgetArrived();
  placeChanges();
  connection("");
  showTitle(state.title);
  showTodos(state.todos ?? []);
  showUsage(state.usage);
  showModel(state.model);
  showMode(state);
  showQueue(state);
  $("interrupted").hidden = !state.interrupted;
  $("again").hidden = !state.again;
  $("again-how").textContent = state.again === "failed" ? ["failed", state.advice].filter(Boolean).join(": ") : "was stopped";
  if (JSON.stringify(old.approval) !== JSON.stringify(state.approval) || old.id !== page.id) showApproval(state.approval);
  page.state.id = page.id;
  document.body.dataset.session = page.id;
  document.body.dataset.status = state.status;
  showSign();
  if (old.status !== state.status || old.title !== state.title) showSessions();
  if (old.status === "running" && state.status !== "running" && document.activeElement === document.body) $("text").focus();
}

// -- the socket -------------------------------------------------------------------------------------------------------

let silence = 0;

function connection(text) {
  $("connection").textContent = text;
}

function connect(after = page.boot === null ? 0 : page.fold.last) {
  page.socket?.close();
  clearTimeout(silence);
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}/api/${here(`/socket?after=${after}`)}`);
  page.socket = socket;
  if (after === 0) page.coming = new Fold();
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(() => page.socket === socket && lost(socket), SILENCE);
  };
  socket.onopen = listen;
  socket.onmessage = (message) => {
    if (page.socket !== socket) return;
    listen();
    hear(JSON.parse(message.data), after);
  };
  socket.onclose = (event) => page.socket === socket && lost(socket, event.code);
}

async function lost(socket, code = 0) {
  page.socket = null;
  page.coming = null;
  clearTimeout(silence);
  socket.close();
  if (code === 4401) return connection("No access: open the address that deep web printed.");
  if (code === 4404) {
    page.id = null;
    location.hash = "";
    return;
  }
  connection("Disconnected. Reconnecting …");
  const id = page.id;
  await new Promise((resolve) => setTimeout(resolve, Math.min(500 * 2 ** page.retry++, LONGEST_WAIT)));
  if (page.id === id && page.socket === null) connect();
}

function hear(message, after) {
  switch (message.type) {
    case "hello":
      // A server that was started again numbers what had no entry yet in another way: everything, from the start.
      if (after !== 0 && message.boot !== page.boot) return connect(0);
      page.answering = message.boot;
      return;
    case "event":
      (page.coming ?? page.fold).take(message);
      forgetArrived();
      if (!page.coming) placeSoon();
      if (["run_ended", "run_interrupted", "approvals_asked"].includes(message.kind)) placeChanges();
      return;
    case "state":
      page.retry = 0;
      takeState(message);
      flush();
      return;
    case "files":
      showCommands();
      return showFiles();
    case "sessions":
      return showSessions();
  }
}

// -- messages ---------------------------------------------------------------------------------------------------------

function send(mode) {
  const text = $("text").value.trim();
  if (!text) return;
  if (text.length > MOST) {
    return notice(`A message may have ${MOST} characters, and this one has ${text.length}: upload it as a file.`);
  }
  if (page.state.approval) return notice("A call waits for your answer: approve or deny it first.");
  const editing = mode === "send" ? page.editing : null;
  $("text").value = "";
  keepDraft();
  grow();
  notice("");
  edit(null);
  post(text, mode, editing);
}

/** Take a message, in place of an earlier one if there is one. */
function post(text, mode, earlier = null) {
  const model = page.info.models.length > 1 ? $("model").value : undefined;
  const before = page.fold.items.filter((item) => isSame(item, text) && (!earlier || item.n < earlier.n)).length;
  const instead_of = earlier?.n;
  const seen = earlier ? page.fold.last : undefined;
  page.sending.push({ id: crypto.randomUUID(), session: page.id, text, mode, model, instead_of, seen, before, taken: false });
  showSending();
  toEnd();
  flush();
}

/** Edit a message of the user, or send it again: either takes back what followed it. */
function change(item, isEdited) {
  if (page.fold.running) return notice("The agent is still working: wait for it, or stop it.");
  if (!isEdited) return post(item.text, "send", item);
  edit(item);
  $("text").value = item.text;
  grow();
  $("text").focus();
}

function edit(item) {
  page.editing = item;
  $("editing").hidden = item === null;
}

/** Send what is not sent yet. Each message has an id, so that the server takes it once however often it comes. */
async function flush() {
  for (const message of page.sending.filter((each) => !each.taken && !each.busy)) {
    message.busy = true;
    keepSending();
    const { id, text, mode, model, instead_of, seen } = message;
    const body = JSON.stringify({ id, text, mode, model, instead_of, seen });
    const options = { method: "POST", headers: { "Content-Type": "application/json" }, body };
    const response = await fetch(`/api/sessions/${message.session}/messages`, options).catch(() => null);
    message.busy = false;
    for (const each of page.sending.filter(({ taken }) => !taken)) each.lost = response === null;
    if (response === null) {
      connection("Disconnected. Your message is sent when the server is back.");
      return showSending();
    }
    if (response.ok) {
      message.taken = true;
      keepSending();
      if (mode !== "send") forget(message);
      forgetArrived();
    } else {
      forget(message);
      if (message.session === page.id && !$("text").value) $("text").value = text; // it is not lost
      grow();
      notice(await refusal(response));
    }
    showSending();
  }
}

function forget(message) {
  page.sending = page.sending.filter((each) => each !== message);
  keepSending();
}

/** Put a message that was not sent back to where it is written. */
function takeBack(message) {
  forget(message);
  $("text").value = [message.text, $("text").value].filter(Boolean).join("\n");
  keepDraft();
  grow();
  showSending();
  $("text").focus();
}

const isSame = (item, text) => item.kind === "user" && item.text === text;

/** How often the user said this in the conversation. */
const countOf = (text) => page.fold.items.filter((item) => isSame(item, text)).length;

/** Forget messages that came back as part of the conversation. */
function forgetArrived() {
  page.sending = page.sending.filter((each) => !(each.taken && each.session === page.id && countOf(each.text) > each.before));
}

/** What is not sent yet survives a reload. The server takes each id once. */
function keepSending() {
  const kept = page.sending.filter((each) => !each.taken).map((each) => ({ ...each, busy: false }));
  sessionStorage.setItem("sending", JSON.stringify(kept));
}

const draftKey = () => `draft ${page.id}`;

function keepDraft() {
  if (page.id) sessionStorage.setItem(draftKey(), $("text").value);
}

function grow() {
  $("text").style.height = "auto";
  $("text").style.height = `${Math.min($("text").scrollHeight, 200)}px`;
}

// -- files ------------------------------------------------------------------------------------------------------------

const size = (bytes) => {
  if (bytes === null || bytes === undefined) return "";
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`;
};

let asked = 0;

async function showFiles() {
  const id = page.id;
  const number = ++asked;
  const response = await fetch(`/api/sessions/${id}/files`).catch(() => null);
  if (!response?.ok || id !== page.id || number !== asked) return;
  const { files, more } = await response.json();
  $("no-files").hidden = files.length > 0;
  $("files").replaceChildren(...files.map((file) => {
    const link = element("a", "", oneLine(file.path));
    link.href = `/api/sessions/${id}/files/${file.path.split("/").map(encodeURIComponent).join("/")}`;
    link.onclick = (event) => {
      event.preventDefault();
      download(link.href, file.path.split("/").pop());
    };
    return element("li", "", link, element("span", "soft size", size(file.size)));
  }));
  if (more) $("files").append(element("li", "soft", "… and more"));
}

/** Fetched here, so that the page says why a file does not come. */
async function download(address, name) {
  const response = await fetch(address).catch(() => null);
  if (!response?.ok) return notice(await refusal(response));
  const link = element("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

async function upload(files) {
  const id = page.id;
  await Promise.all([...files].map(async (file) => {
    const line = element("li", "uploading", element("span", "", oneLine(file.name)), element("span", "soft", "uploading …"));
    $("uploads").append(line);
    const where = `/api/sessions/${id}/uploads?name=${encodeURIComponent(file.name)}`;
    const response = await fetch(where, { method: "POST", body: file }).catch(() => null);
    if (response?.ok) {
      line.remove();
      return showFiles();
    }
    const why = response ? await refusal(response) : `${file.name}: the upload broke off.`;
    line.className = "failed";
    line.replaceChildren(element("span", "", why), button("quiet", `Dismiss: ${oneLine(file.name)}`, () => line.remove(), "×"));
  }));
}

// -- background commands -----------------------------------------------------------------------------------------------

let commandsAsked = 0;
let commandsTimer = 0;

/** The commands that run beside the conversation; while one runs, looked at again: its end is no event. */
async function showCommands() {
  const id = page.id;
  const number = ++commandsAsked;
  clearTimeout(commandsTimer);
  const response = await fetch(`/api/sessions/${id}/commands`).catch(() => null);
  if (!response?.ok || id !== page.id || number !== commandsAsked) return;
  const { commands } = await response.json();
  $("commands-side").hidden = commands.length === 0;
  const focused = document.activeElement?.dataset?.command;
  $("commands").replaceChildren(...commands.map((each) => {
    const parts = [element("code", "", oneLine(each.command)), element("span", "soft size", `${each.name}, ${each.status}`)];
    if (each.is_running) {
      const stop = button("danger", `Stop ${each.name}: ${oneLine(each.command)}`, async () => {
        stop.disabled = true;
        await ask("POST", here(`/commands/${encodeURIComponent(each.name)}/stop`));
        showCommands();
      }, "Stop");
      stop.dataset.command = each.name;
      parts.push(stop);
    }
    return element("li", each.is_running ? "running" : "", ...parts);
  }));
  if (focused) [...$("commands").querySelectorAll("button")].find((each) => each.dataset.command === focused)?.focus();
  if (commands.some((each) => each.is_running)) commandsTimer = setTimeout(showCommands, COMMANDS_LOOK);
}

// -- the list of conversations ----------------------------------------------------------------------------------------

const STATUS = { running: ["●", "running"], waiting: ["?", "waits for you"], interrupted: ["!", "interrupted"], failed: ["✗", "failed"] };
let listed = 0;

async function showSessions() {
  const number = ++listed;
  const search = $("search").value.trim();
  const response = await fetch(`/api/sessions${search ? `?search=${encodeURIComponent(search)}` : ""}`).catch(() => null);
  if (!response?.ok) {
    notice(await refusal(response));
    return null;
  }
  const sessions = await response.json();
  if (number !== listed) return sessions;
  const days = new Map();
  for (const session of sessions) {
    const day = dayOf(session.changed);
    days.set(day, [...(days.get(day) ?? []), sessionNode(session)]);
  }
  $("session-list").replaceChildren(...[...days].flatMap(([day, nodes]) => [element("li", "day", element("h2", "", day)), ...nodes]));
  return sessions;
}

/** The group that a conversation is in: a day of this week, or a month. */
function dayOf(time) {
  const then = new Date(time);
  if (Number.isNaN(then.getTime())) return "";
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(then).setHours(0, 0, 0, 0)) / 86400000);
  if (days <= 1) return days < 1 ? "Today" : "Yesterday";
  if (days < 7) return "Last seven days";
  return then.toLocaleDateString("en", { month: "long", year: "numeric" });
}

function sessionNode(session) {
  const link = element("a", "", element("span", "name", oneLine(session.title || "New conversation")));
  link.href = `#${encodeURIComponent(session.id)}`;
  if (session.id === page.id) link.setAttribute("aria-current", "page");
  const [mark, label] = STATUS[session.status] ?? [];
  if (mark) {
    const node = element("span", `mark ${session.status}`, mark);
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", label);
    node.title = label;
    link.append(node);
  }
  if (session.excerpt) link.append(element("span", "excerpt", oneLine(session.excerpt)));
  return element("li", "", link);
}

async function create() {
  const made = await ask("POST", "sessions");
  if (made) location.hash = encodeURIComponent(made.id);
}

async function open() {
  const sessions = await showSessions();
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (!wanted) {
    if (sessions === null) return;
    // A new conversation, not the last one: a message is not meant for that unless it is chosen.
    const unused = sessions.find((each) => !each.title && each.status === "idle");
    if (unused) location.hash = encodeURIComponent(unused.id);
    else await create();
    return;
  }
  showPanel("");
  if (page.id !== wanted) {
    keepDraft();
    Object.assign(page, { id: wanted, fold: new Fold(), coming: null, boot: null, state: {}, nodes: [], retry: 0, rewinds: 0 });
    page.opened.clear();
    list.replaceChildren();
    showApproval(null);
    edit(null);
    showMode({});
    $("held").hidden = true;
    $("uploads").replaceChildren();
    $("queue").replaceChildren();
    $("interrupted").hidden = $("again").hidden = true;
    $("text").value = sessionStorage.getItem(draftKey()) ?? "";
    grow();
    connection("Connecting …");
    connect(0);
    $("commands-side").hidden = true;
    showCommands();
    showFiles();
  }
  showSessions();
  $("text").focus();
}

/** Ask with a dialog; null if the user cancels. With a value, for text. */
function dialog(text, { value = null, yes = "OK" } = {}) {
  $("asked-text").textContent = visible(text);
  $("asked-value").hidden = value === null;
  $("asked-value").value = value ?? "";
  $("asked-yes").textContent = yes;
  $("asked-yes").className = yes === "Delete" ? "danger" : "";
  $("asked").returnValue = "";
  $("asked").showModal();
  return new Promise((resolve) => {
    $("asked").onclose = () => resolve($("asked").returnValue === "yes" ? $("asked-value").value.trim() || true : null);
  });
}

$("asked-no").onclick = () => $("asked").close();
$("rename").onclick = async () => {
  $("menu").open = false;
  const title = await dialog("A new title", { value: page.state.title ?? "", yes: "Rename" });
  if (typeof title === "string" && (await ask("PATCH", here(), { title }))) showSessions();
};
$("fork").onclick = async () => {
  $("menu").open = false;
  const made = await ask("POST", here("/fork"));
  if (made) location.hash = encodeURIComponent(made.id);
};
$("compact").onclick = async () => {
  $("menu").open = false;
  const keep = await dialog("Summarize the conversation so far. What to keep above all?", { value: "", yes: "Compact" });
  if (keep === null) return;
  notice("Summarizing the conversation …");
  const done = await ask("POST", here("/compact"), { keep: keep === true ? "" : keep });
  if (done) notice(`${done.text}.`);
};
$("delete").onclick = async () => {
  $("menu").open = false;
  const title = page.state.title || "this conversation";
  if (!(await dialog(`Delete “${title}”? This cannot be undone.`, { yes: "Delete" }))) return;
  if (!(await ask("DELETE", here()))) return;
  sessionStorage.removeItem(draftKey());
  page.id = null;
  page.socket?.close();
  page.socket = null;
  if (location.hash) location.hash = "";
  else open();
};

// -- keyboard and buttons ---------------------------------------------------------------------------------------------

let noticeTimer = 0;

function notice(text) {
  clearTimeout(noticeTimer);
  $("notice").textContent = visible(text);
  $("notice").hidden = !text;
  if (text) noticeTimer = setTimeout(() => notice(""), 12000);
}

$("text").oninput = () => {
  grow();
  keepDraft();
};
$("text").onkeydown = (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send(page.fold.running ? (event.altKey ? "steer" : "queue") : "send");
};
$("composer").onsubmit = (event) => {
  event.preventDefault();
  send(page.fold.running ? "queue" : "send");
};
$("stop").onclick = () => ask("POST", here("/stop"));
$("resume").onclick = () => ask("POST", here("/resume"));
$("retry").onclick = () => ask("POST", here("/retry"));
$("go-on").onclick = () => ask("POST", here("/resume"));
$("carry-out").onclick = () => carryOut("ask");
$("carry-edits").onclick = () => carryOut("accept-edits");
$("edit-no").onclick = () => {
  edit(null);
  $("text").value = "";
  keepDraft();
  grow();
};
$("mode").onchange = () => chooseMode($("mode").value);
$("keep-mode").onclick = () => chooseMode($("mode").value, true);
$("forget").onclick = async () => {
  $("menu").open = false;
  if (await dialog(`Ask again before:\n${page.state.rules.map((rule) => rule.about).join("\n")}`, { yes: "Forget rules" })) {
    await ask("DELETE", here("/rules"));
  }
};
$("new").onclick = create;
$("search").oninput = showSessions;
$("attach").onclick = () => $("picker").click();
$("picker").onchange = () => {
  upload($("picker").files);
  $("picker").value = "";
};

// A picture or a file in the clipboard; text goes into the message.
addEventListener("paste", (event) => {
  const files = event.clipboardData?.files ?? [];
  if (!files.length || !page.id || $("asked").open) return;
  event.preventDefault();
  upload(files);
});

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
addEventListener("click", (event) => { if (!$("menu").contains(event.target)) $("menu").open = false; });
addEventListener("keydown", (event) => {
  if (event.altKey && event.code === "KeyN") { event.preventDefault(); create(); }
  if (event.altKey && event.code === "KeyM" && page.info.modes?.length) {
    event.preventDefault();
    chooseMode(page.info.modes[(page.info.modes.indexOf($("mode").value) + 1) % page.info.modes.length]);
  }
  if (event.key !== "Escape" || $("asked").open) return;
  if ($("menu").open) $("menu").open = false;
  else if (document.body.matches(".show-sessions, .show-side")) showPanel("");
  else if (page.fold.running) ask("POST", here("/stop"));
  else if (page.editing) $("edit-no").click();
});
addEventListener("online", () => page.socket === null && page.id && connect());
addEventListener("hashchange", open);

/** Without access there is nothing to show but how to get it. */
function noAccess() {
  document.body.classList.add("no-access");
  list.replaceChildren(element("div", "hello", element("p", "big", "This address gives no access"),
    element("p", "soft", "Open the address that deep web printed. It has a token, which is another one after each start.")));
}

async function begin() {
  const response = await fetch("/api/info").catch(() => null);
  if (response?.status === 401) return noAccess();
  if (!response?.ok) return notice(await refusal(response));
  const info = await response.json();
  page.info = info;
  $("folder").textContent = oneLine(info.folder ?? "");
  $("model").replaceChildren(...(info.models ?? []).map((model) => element("option", "", model)));
  $("mode").replaceChildren(...(info.modes ?? []).map((mode) => {
    const node = element("option", "", MODES[mode] ?? mode);
    node.value = mode;
    return node;
  }));
  page.sending = JSON.parse(sessionStorage.getItem("sending") ?? "[]");
  showModel(info.model);
  await open();
}

begin();
