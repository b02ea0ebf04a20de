// Numbers as people read them, and as people write them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const twoDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
// Smaller shares are not told apart.
const SHARE_MIN = 1e-6;
const RATE_MIN = 1e-12;
// An axis of rates that goes so far can be read.
export const RATE_AXIS_MIN = 4 * SHARE_MIN;

export const count = (number) => (number < 100000 ? whole.format(number) : short.format(number));
export const exact = (number) => whole.format(number);

export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    ++unit;
  }
  return `${Number(number.toPrecision(number >= 1000 ? 4 : 3))} ${units[unit]}`;
}

export function percent(share) {
  if (share === 0) return "0%";
  if (share < SHARE_MIN) return "< 0.0001%";
  const value = share * 100;
  return `${value >= 10 ? Number(value.toPrecision(3)) : twoDigits.format(value)}%`;
}

export function oneIn(rate) {
  if (rate <= 0) return "none";
  if (rate < RATE_MIN) return "fewer than 1 of 10^12";
  return rate >= 0.5 ? `${Math.round(rate * 100)} of 100` : `1 of ${count(1 / rate)}`;
}

export function duration(seconds) {
  const steps = [[86400 * 365, "year"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
  for (const [size, name] of steps) {
    if (seconds < size && size > 1) continue;
    const number = Math.round(seconds / size);
    return number > 1000 && name === "year" ? "more than 1,000 years" : `${exact(number)} ${name}${number === 1 ? "" : "s"}`;
  }
}

const DATE_MAX = 8.64e12;  // the last second of a Date

// Seconds since 1970, as "2026-11-29 10:00:00 UTC".
export const timeAt = (seconds) => seconds > DATE_MAX ? "after the year 275,760" : new Date(1000 * seconds).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");

// Of the time that a request takes.
export function shortTime(seconds) {
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "\u00b5s"]];
  const [size, name] = units.find(([least]) => seconds >= least) ?? [1e-9, "ns"];
  return `${Number((seconds / size).toPrecision(2))} ${name}`;
}

// --- what people write, as `sepal plan` reads it

const POWERS = { k: 3, m: 6, g: 9 };

// A whole number: "1000000", "1,000,000", "1e6", "1.5M", "2g". Exact, as a BigInt; null if it is not whole, or written otherwise.
export function countIn(text) {
  const parts = /^(\d+)(?:\.(\d{0,40}))?(?:e\+?(-?\d{1,2}))?([kmg]?)$/i.exec(text.replace(/[\s,_]/g, ""));
  if (!parts) return null;
  const fraction = parts[2] ?? "";
  const power = Number(parts[3] ?? 0) + (POWERS[parts[4].toLowerCase()] ?? 0) - fraction.length;
  const digits = BigInt(parts[1] + fraction);
  if (power >= 0) return digits * 10n ** BigInt(power);
  const unit = 10n ** BigInt(-power);
  return digits % unit === 0n ? digits / unit : null;
}

// A share: "0.01", "1e-3", "1%", "1/1000", "1 of 1000". NaN if it is none.
export function rateIn(text) {
  const share = /^\s*(\d+|\d*\.\d+|\d+\.)(?:e([+-]?\d{1,3}))?\s*(%?)\s*$/i.exec(text);
  // "0.7%" by a division would be 0.006999999999999999.
  if (share) return Number(`${share[1]}e${Number(share[2] ?? 0) - (share[3] ? 2 : 0)}`);
  const part = /^\s*(\d+)\s*(?:\/|of)\s*(.+)$/i.exec(text);
  const whole = part && countIn(part[2]);
  return whole ? Number(part[1]) / Number(whole) : NaN;
}

const UNITS = { ms: 1, s: 1000, m: 60e3, h: 3600e3, d: 86400e3, w: 604800e3 };

// Seconds of "500ms", "90s", "15m", "1.5 h", "7d" and "2w", to a whole millisecond; without a unit, of seconds. NaN if it is no time.
export function secondsIn(text) {
  const time = /^\s*(\d+|\d*\.\d+|\d+\.)(?:e([+-]?\d{1,3}))?\s*(ms|[smhdw]?)\s*$/.exec(text);
  return time ? Math.round(Number(`${time[1]}e${time[2] ?? 0}`) * UNITS[time[3] || "s"]) / 1000 : NaN;
}

// { count, seconds } of "20000/s", "1.5m/h" and "3k/15m": so many in so long. Null if it is no pace.
export function paceIn(text) {
  const cut = text.indexOf("/");
  if (cut < 0) return null;
  const count = countIn(text.slice(0, cut)), time = text.slice(cut + 1).trim();
  const seconds = secondsIn(/^\d|^\./.test(time) ? time : `1${time}`);
  return time !== "" && count !== null && count > 0n && seconds > 0 ? { count, seconds } : null;
}
