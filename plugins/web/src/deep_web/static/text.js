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

/** A message in Markdown, as elements. */
export function prose(text) {
  const fragment = DOMPurify.sanitize(markdown.render(visible(text)), {
    ALLOWED_TAGS: ALLOWED, ALLOWED_ATTR: ["href", "start"], ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
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
  for (const pre of out.querySelectorAll("pre")) {
    pre.tabIndex = 0;
    const frame = element("div", "code");
    pre.replaceWith(frame);
    frame.append(pre, copyButton(() => pre.textContent, "Copy this code"));
  }
  return out;
}
