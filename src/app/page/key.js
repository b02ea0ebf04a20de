// How a key is shown. A key is bytes; no two keys look alike. A byte that would not be seen, or that another key's bytes would
// look like, stands as redis-cli writes it: "\x" and two digits. A backslash of the key itself is doubled.
import { make } from "./draw.js";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const SEEN = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;
const UNSEEN = /^[\p{Default_Ignorable_Code_Point}\u2800]$/u;
const RIGHT_TO_LEFT = /^(?=[\p{L}\p{M}])[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]$/u;
const TAIL = 8;       // characters of the end that stay where a long key is cut
const LONG = 2 * TAIL;

// The server encodes each byte of a key that is no plain text.
export function bytesOf(filter) {
  if (filter.key_encoded === null) return new TextEncoder().encode(filter.key);
  return Uint8Array.from(filter.key_encoded.split("%").slice(1), (digits) => parseInt(digits, 16));
}

// How the address of the page names a filter.
export const idOf = (filter) => `${filter.database}/${filter.key_encoded ?? encodeURIComponent(filter.key)}`;

const hex = (bytes) => [...bytes].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");

// The character that begins at `at`, or null where the bytes are no UTF-8.
function characterAt(bytes, at) {
  const first = bytes[at], length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  try {
    return decoder.decode(bytes.subarray(at, at + length));
  } catch {
    return null;
  }
}

// What kind of piece a character belongs to. `before` is what is shown since the last escape, in one piece or more.
function kindOf(character, before, atEnd) {
  if (character === " ") return before === "" || before.endsWith(" ") || atEnd ? "byte" : "plain";
  if (character === null || character === "\\" || !SEEN.test(character) || UNSEEN.test(character)) return "byte";
  if (character < "\x80") return "plain";
  // Characters that Unicode calls equal, as a letter with its accent and the two apart, mostly look alike. One form is shown.
  if (/\p{M}/u.test(character) && before === "") return "byte";
  if ((before + character).normalize("NFKC") !== before + character) return "byte";
  return RIGHT_TO_LEFT.test(character) ? "backward" : "foreign";
}

// [{ kind, text }]: "plain" ASCII, "foreign" for other characters, "backward" for letters that run from right to left, "byte" for
// what is escaped, a piece for each character.
export function piecesOf(bytes) {
  const pieces = [];
  let before = "";
  for (let at = 0; at < bytes.length;) {
    const character = characterAt(bytes, at);
    const length = character === null ? 1 : new TextEncoder().encode(character).length;
    const kind = kindOf(character, before, at + length === bytes.length);
    const text = kind !== "byte" ? character : character === "\\" ? "\\\\" : hex(bytes.subarray(at, at + length));
    before = kind === "byte" ? "" : before + character;
    if (kind !== "byte" && pieces.at(-1)?.kind === kind) pieces.at(-1).text += text;
    else pieces.push({ kind, text });
    at += length;
  }
  return pieces;
}

const EMPTY = "(empty key)";
// The operator's pattern leaves it out.
const HIDDEN = "(a key that is not shown)";
const ALL_PLAIN = /^[!-[\]-~]+$/;

// The text of shownKey().
export function shownText(filter) {
  if (filter.key === null) return HIDDEN;
  if (filter.key === "") return EMPTY;
  return filter.key_encoded === null && ALL_PLAIN.test(filter.key) ? filter.key : piecesOf(bytesOf(filter)).map((piece) => piece.text).join("");
}

const elementOf = ({ kind, text }) => make(kind === "backward" ? "bdi" : "span", { class: `k-${kind}`, dir: kind === "backward" ? "rtl" : null }, text);

// The pieces before and behind the last characters.
function cut(pieces) {
  const head = [...pieces], tail = [];
  for (let room = TAIL; room > 0;) {
    const last = head.pop(), characters = [...last.text];
    // An escape is not cut in two.
    const whole = characters.length <= room || last.kind === "byte";
    tail.unshift(whole ? last : { kind: last.kind, text: characters.slice(-room).join("") });
    if (!whole) head.push({ kind: last.kind, text: characters.slice(0, -room).join("") });
    room -= characters.length;
  }
  return [head, tail];
}

// The element of a key. With `cuts`, the middle of a long key may be cut where the room is small.
export function shownKey(filter, cuts = false) {
  if (filter.key === null) return make("span", { class: "key-text none-there" }, HIDDEN);
  const pieces = piecesOf(bytesOf(filter));
  if (pieces.length === 0) return make("span", { class: "key-text none-there" }, EMPTY);
  const all = make("span", { class: "key-text", dir: "ltr" });
  if (!cuts || pieces.reduce((sum, piece) => sum + piece.text.length, 0) <= LONG) {
    all.append(...pieces.map(elementOf));
    return all;
  }
  const [head, tail] = cut(pieces);
  all.append(make("span", { class: "key-head" }, ...head.map(elementOf)), make("span", { class: "key-tail" }, ...tail.map(elementOf)));
  return all;
}

// A key as redis-cli reads it.
export function quoted(filter, suffix = "") {
  if (filter.key === null) return "KEY";
  if (filter.key_encoded === null && /^[\w:.\-{}@/]+$/.test(filter.key)) return filter.key + suffix;
  const text = [...bytesOf(filter)].map((code) => {
    if (code === 34 || code === 92) return "\\" + String.fromCharCode(code);
    return code >= 32 && code < 127 ? String.fromCharCode(code) : hex([code]);
  }).join("");
  return `"${text}${suffix}"`;
}
