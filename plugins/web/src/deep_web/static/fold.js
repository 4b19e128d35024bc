// From the events of a session to what the page shows: a list of items. Pure: no element, no clock, no network.

const FAILED_STATES = ["failed", "retried", "denied"];

/**
 * The items of a session, and how each event changes them.
 *
 * An item has a `kind`: `user`, `assistant`, `thinking`, `tool`, `note` or `error`; a `text`; and a `key`, which is the
 * same after a replay. A tool's item also has `tool`, `plugin`, `args`, `state`, `depth`, `agent`, `path` and `call`.
 * `cut` marks text whose message never came, because the server died while the model wrote it; `live` a note that only
 * the page has seen; `begins` a message that can be edited, since a run began with it. `n` is the event's number.
 */
export class Fold {
  items = [];
  running = false;
  last = 0;
  rewinds = 0; // how often items were taken back: all of them are then shown anew
  #past = []; // before each rewind: its number, and the items then
  #now = 0;
  #calls = new Map();
  #writing = null;
  #thinking = null;
  #changed = new Set();

  /** Take up an event. One that was taken up before changes nothing. */
  take(event) {
    const again = event.n <= this.last;
    // After a reconnect a result may come once more; everything else that comes again is old.
    if (again && event.kind !== "tool_ended") return;
    this.last = Math.max(this.last, event.n);
    this.#now = event.n;
    this[`_${event.kind}`]?.(event);
  }

  /** The indexes of the items that changed since the last time. */
  changes() {
    const changed = [...this.#changed].sort((a, b) => a - b);
    this.#changed.clear();
    return changed;
  }

  /** Whatever ran does not run any more, though no event says so: its process died. */
  settle() {
    if (!this.running) return;
    this.running = false;
    this.#setStates(["running"], "interrupted");
  }

  /**
   * Take over what only the page has seen, from the fold before a restart of the server: thinking, and what a model wrote
   * until its process died. Each stays where it stood.
   */
  keep(old) {
    old.items.forEach((item, index) => {
      if (item.kind !== "thinking" && !item.live && !item.cut && item !== old.unfinished) return;
      if (this.#past.some(({ to, n }) => to <= item.n && item.n < n)) return; // it was taken back
      const above = old.items.slice(0, index).reverse().find((each) => this.#place(each.key) >= 0);
      const place = above ? this.#place(above.key) + 1 : 0;
      const next = this.items[place];
      if (next?.kind === item.kind && next.text.startsWith(item.text)) return; // the message came after all
      this.#insert(place, { ...item, cut: item.kind === "assistant" });
    });
  }

  #place(key) {
    return this.items.findIndex((item) => item.key === key);
  }

  /** The assistant's item whose message has not come yet; null if there is none. */
  get unfinished() {
    return this.#writing === null ? null : this.items[this.#writing];
  }

  _run_started(event) {
    this.#end(); // where a process died in a run, no event says so
    if ((event.attempt ?? 1) === 1) this.#add({ kind: "user", text: event.text ?? "", key: `u${event.n}`, begins: true });
    this.running = true;
    this.#setStates(["waiting"], "running");
  }

  _run_ended(event) {
    this.#end();
    if (event.words) this.#add({ kind: "note", text: `This answer is not whole: ${event.words}`, key: `e${event.n}` });
    if (event.status === "aborted") this.#add({ kind: "note", text: "Stopped.", key: `e${event.n}` });
    if (event.status === "failed") {
      this.#add({ kind: "error", text: `The run failed. ${event.message ?? ""}`.trim(), key: `e${event.n}` });
    }
  }

  _run_interrupted(event) {
    this.#interrupt(event.message ? `The run was interrupted: ${event.message}` : "The run was interrupted.", event.n);
  }

  /** A rewind: the conversation is what it was before the event with the number `to`, also after another rewind. */
  _history_replaced(event) {
    if (!event.to) return;
    const before = this.#past.find(({ n }) => n >= event.to)?.items ?? this.items;
    this.#past.push({ n: event.n, to: event.to, items: this.items });
    this.#end();
    this.items = before.filter(({ n }) => n < event.to);
    this.#calls = new Map(this.items.flatMap((item, index) => (item.kind === "tool" ? [[item.key.slice(1), index]] : [])));
    this.#changed.clear();
    this.rewinds++;
  }

  _thinking_added(event) {
    if (event.path) return;
    if (this.#thinking === null) {
      this.#thinking = this.#add({ kind: "thinking", text: "", key: `t${event.n}` });
    }
    this.#append(this.#thinking, event.text ?? "");
  }

  _text_added(event) {
    if (event.path) return;
    this.#thinking = null;
    if (this.#writing === null) {
      this.#writing = this.#add({ kind: "assistant", text: "", key: `p${event.n}` });
    }
    this.#append(this.#writing, event.text ?? "");
  }

  _request_retried(event) {
    if (event.path) return;
    const note = { kind: "note", text: event.words ?? "", key: `w${event.n}`, live: true };
    if (event.replaces && this.unfinished) this.#change(this.#writing, note); // the next answer begins again
    else this.#add(note);
    this.#close();
  }

  _message_added(event) {
    if (event.path) return;
    const role = event.role ?? "assistant";
    const key = `${role === "user" ? "u" : "m"}${event.n}`;
    this.#thinking = null;
    if (role === "user") {
      this.#add({ kind: "user", text: event.text ?? "", key });
    } else if (this.#writing === null) {
      if (event.text) this.#add({ kind: "assistant", text: event.text, key });
    } else {
      this.#change(this.#writing, { text: event.text ?? "", key }); // it was seen piece by piece, perhaps not from the start
      this.#writing = null;
    }
  }

  _tool_started(event) {
    const call = `${event.path ?? ""}/${event.call_id}`;
    if (this.#calls.has(call)) {
      this.#change(this.#calls.get(call), { state: "running" }); // it waited, or its process died, and it starts again
      return;
    }
    this.#close();
    this.#calls.set(call, this.#add({
      kind: "tool", text: "", key: `c${call}`, tool: event.tool, plugin: event.plugin ?? "", args: event.args ?? "",
      state: "running", agent: event.agent ?? "", path: event.path ?? "", call: event.call_id,
      depth: event.path ? event.path.split("/").length : 0,
    }));
  }

  _tool_ended(event) {
    const index = this.#calls.get(`${event.path ?? ""}/${event.call_id}`);
    if (index !== undefined) this.#change(index, { state: event.outcome ?? "success", text: event.result ?? "" });
  }

  _approvals_asked() {
    this.running = false;
    this.#close();
    this.#setStates(["running"], "waiting");
  }

  #interrupt(text, number) {
    this.#end();
    this.#add({ kind: "error", text, key: `e${number}` });
  }

  #end() {
    this.running = false;
    if (this.unfinished) this.#change(this.#writing, { cut: true });
    this.#close();
    this.#setStates(["running", "waiting"], "interrupted");
  }

  #close() {
    this.#writing = null;
    this.#thinking = null;
  }

  #setStates(from, to) {
    this.items.forEach((item, index) => {
      if (from.includes(item.state)) this.#change(index, { state: to });
    });
  }

  #add(item) {
    this.items.push({ ...item, n: this.#now });
    this.#changed.add(this.items.length - 1);
    return this.items.length - 1;
  }

  #append(index, text) {
    this.#change(index, { text: this.items[index].text + text });
  }

  #change(index, values) {
    this.items[index] = { ...this.items[index], ...values };
    this.#changed.add(index);
  }

  #insert(place, item) {
    this.items.splice(place, 0, item);
    const moved = (index) => (index !== null && index >= place ? index + 1 : index);
    this.#writing = moved(this.#writing);
    this.#thinking = moved(this.#thinking);
    for (const [call, index] of this.#calls) this.#calls.set(call, moved(index));
    for (let index = place; index < this.items.length; index++) this.#changed.add(index);
  }
}

/** The exit code of a command that failed; null for others. A command's result begins with it, unless it is 0. */
export function exitCode(item) {
  const found = item.tool === "execute" && item.state === "success" && /^Exit code (-?\d+)[,\n]/.exec(item.text);
  return found && found[1] !== "0" ? Number(found[1]) : null;
}

/** Whether a call failed, for the mark beside it. */
export const hasFailed = (item) => FAILED_STATES.includes(item.state) || exitCode(item) !== null;

/** The arguments of a call as an object; null where the event cut them off. */
export function readArgs(item) {
  try {
    const args = JSON.parse(item.args || "{}");
    return args && typeof args === "object" && !Array.isArray(args) ? args : null;
  } catch {
    return null;
  }
}

/** What an edit or a write changes, as lines `{sign, text}`; null for other calls. */
export function changedLines(args) {
  const lines = (text, sign) => text.replace(/\n$/, "").split("\n").map((line) => ({ sign, text: line }));
  if (!args || typeof args.path !== "string") return null;
  if (typeof args.content === "string") return lines(args.content, "+");
  if (typeof args.old_string !== "string" || typeof args.new_string !== "string") return null;
  const before = lines(args.old_string, "-");
  const after = lines(args.new_string, "+");
  let head = 0;
  while (head < Math.min(before.length, after.length) && before[head].text === after[head].text) head++;
  let tail = 0;
  while (tail < Math.min(before.length, after.length) - head && before.at(-1 - tail).text === after.at(-1 - tail).text) tail++;
  const same = (list) => list.map((line) => ({ sign: " ", text: line.text }));
  return [
    ...same(before.slice(0, head)), ...before.slice(head, before.length - tail), ...after.slice(head, after.length - tail),
    ...same(before.slice(before.length - tail)),
  ];
}

/** What a call is about, in a few words: its file, command, pattern or task. */
export function subject(item) {
  const args = readArgs(item);
  if (args) return String(args.path ?? args.command ?? args.pattern ?? args.description ?? args.query ?? args.url ?? args.name ?? "");
  const found = /"(?:path|command|pattern|description)":\s*"((?:[^"\\]|\\.)*)"/.exec(item.args); // cut off
  return found ? found[1] : "";
}
