// Text onto the page: nothing in it hides or reorders, and what models write in Markdown becomes elements that do nothing.

import DOMPurify from "./vendor/purify.es.mjs";
import markdownit from "./vendor/markdown-it.esm.min.mjs";

// An emoji's joiner and selector stay, where they follow one.
const EMOJI = "\\u00a9\\u00ae\\u2190-\\u2bff\\u3030\\u303d\\u3297\\u3299\\u{1f000}-\\u{1faff}";
const HIDDEN = new RegExp(
  "(?![\\t\\n\\u200d\\ufe0f])[\\p{Cc}\\p{Cs}\\p{Default_Ignorable_Code_Point}\\p{Bidi_Control}\\u2028\\u2029\\u2800\\ufff9-\\ufffb]" +
  `|(?<![${EMOJI}])\\ufe0f|(?<![${EMOJI}])(?<![${EMOJI}]\\ufe0f)\\u200d`,
  "gu",
);

/** Control and invisible characters as codes, as in the terminal: `\\x1b`, `\\u200b`. */
export const visible = (text) => text.replace(HIDDEN, (char) => {
  const code = char.codePointAt(0).toString(16);
  if (code.length < 3) return `\\x${code.padStart(2, "0")}`;
  return code.length < 5 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
});

/** A name stays on its line. */
export const oneLine = (text) => visible(text).replaceAll("\n", "\\n").replaceAll("\t", "\\t");

/** Make an element. Strings among its children become text nodes; null and undefined are left out. */
export function element(tag, className = "", ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children.filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : visible(String(child)))));
  return node;
}

/** A button with a name that a screen reader says. */
export function button(className, label, onclick, shown = label) {
  const node = element("button", className, shown);
  node.type = "button";
  if (shown !== label) {
    node.setAttribute("aria-label", oneLine(label));
    node.title = oneLine(label);
  }
  node.onclick = onclick;
  return node;
}

/** A button that copies what `text` returns. */
export function copyButton(text, label = "Copy") {
  const node = button("quiet copy", label, async () => {
    await navigator.clipboard.writeText(text());
    node.textContent = "Copied";
    setTimeout(() => { node.textContent = "Copy"; }, 1500);
  }, "Copy");
  return node;
}

// HTML in a message is text. A picture would tell its host that the message is read, so it is a link.
const markdown = markdownit({ html: false, linkify: false, breaks: false });
markdown.disable("image");
// The title of the conversation is the first heading: those of an answer stand below it.
const heading = (tokens, index, options, env, self) => {
  tokens[index].tag = `h${Math.min(6, Number(tokens[index].tag[1]) + 1)}`;
  return self.renderToken(tokens, index, options);
};
markdown.renderer.rules.heading_open = heading;
markdown.renderer.rules.heading_close = heading;
// A style of a column is an attribute, because styles are not allowed.
for (const kind of ["th_open", "td_open"]) {
  markdown.renderer.rules[kind] = (tokens, index, options, env, self) => {
    const side = /text-align:(\w+)/.exec(tokens[index].attrGet("style") ?? "")?.[1];
    tokens[index].attrs = side ? [["align", side]] : [];
    return self.renderToken(tokens, index, options);
  };
}
const ALLOWED = [
  "a", "blockquote", "br", "code", "del", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s",
  "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
];

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("rel", "noopener noreferrer nofollow");
  node.setAttribute("target", "_blank");
  node.title = node.getAttribute("href") ?? ""; // where it leads, whatever its words say
});

/** `[x]` at the beginning of an item is a box that is checked. */
function checkBox(item) {
  const first = item.firstChild?.nodeName === "P" ? item.firstChild.firstChild : item.firstChild;
  const found = first?.nodeType === Node.TEXT_NODE && /^\[([ xX])\]\s/.exec(first.data);
  if (!found) return;
  const isDone = found[1] !== " ";
  const box = element("span", "box", isDone ? "☑" : "☐");
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", isDone ? "done" : "open");
  first.data = first.data.slice(found[0].length);
  first.before(box);
  item.classList.add("task");
}

// What most languages share: a comment, a text, a number, a word of the language. A comment begins at a line's start or
// after white space, so that an address is none.
const TOKENS = new RegExp(
  "(?<comment>(?<=^|\\s)(?:#(?!\\[)|//|--\\s)[^\\n]*|/\\*[^]*?\\*/)" +
  "|(?<string>\"\"\"[^]*?\"\"\"|\"(?:[^\"\\\\\\n]|\\\\.)*\"|(?<!\\w)'(?:[^'\\\\\\n]|\\\\.)*'|`(?:[^`\\\\]|\\\\.)*`)" +
  "|(?<number>(?<![\\w.])\\d[\\w.]*)" +
  "|(?<keyword>(?<![\\w.$-])(?:and|as|assert|async|await|break|case|catch|class|const|continue|def|default|del|do|elif|else" +
  "|enum|except|export|extends|false|False|finally|fn|for|from|func|function|if|impl|import|in|interface|is|lambda|let" +
  "|match|mut|new|nil|None|not|null|or|package|pass|pub|public|private|raise|return|self|static|struct|super|switch|then" +
  "|this|throw|true|True|try|type|use|var|void|while|with|yield|fi|done|esac)(?![\\w-]))",
  "gmu",
);
const PAINTED = 20000; // characters: longer code stays plain

/** Color code, in place. The text does not change. */
function paint(code) {
  const text = code.textContent;
  if (text.length > PAINTED) return;
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(TOKENS)) {
    const [kind] = Object.entries(found.groups).find(([, value]) => value !== undefined);
    const part = document.createElement("span");
    part.className = `code-${kind}`;
    part.textContent = found[0];
    parts.push(text.slice(end, found.index), part);
    end = found.index + found[0].length;
  }
  code.replaceChildren(...parts, text.slice(end));
}

/** A message in Markdown, as elements. */
export function prose(text) {
  const fragment = DOMPurify.sanitize(markdown.render(visible(text)), {
    ALLOWED_TAGS: ALLOWED, ALLOWED_ATTR: ["align", "href", "start"], ADD_URI_SAFE_ATTR: ["align", "start"],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    RETURN_DOM_FRAGMENT: true,
  });
  const out = element("div", "prose");
  out.append(fragment);
  for (const table of out.querySelectorAll("table")) {
    const frame = element("div", "wide");
    frame.tabIndex = 0;
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "Table");
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const item of out.querySelectorAll("li")) checkBox(item);
  for (const pre of out.querySelectorAll("pre")) {
    pre.tabIndex = 0;
    paint(pre.querySelector("code") ?? pre);
    const frame = element("div", "code");
    pre.replaceWith(frame);
    frame.append(pre, copyButton(() => pre.textContent, "Copy this code"));
  }
  return out;
}
