"""Bar charts as SVG. They have their own background and colours, so they are readable on light and dark pages."""

from typing import NamedTuple
from xml.sax.saxutils import escape


class Theme(NamedTuple):
    ground: str
    ink: str
    faint: str
    colours: list  # one for each series


LIGHT = Theme("#ffffff", "#1f2933", "#7b8794", ["#2b6cb0", "#c05621", "#2f855a", "#805ad5"])
# Two kinds of server, each in a strong and a weak colour.
PAIRS_LIGHT = LIGHT._replace(faint="#5f6b76", colours=["#1f5fa6", "#7fb2e5", "#b8500f", "#e8a06a"])
PAIRS_DARK = Theme("#0d1117", "#e6edf3", "#9aa5b1", ["#58a6ff", "#3a72b5", "#f0883e", "#a35a24"])
WIDTH, LABEL_WIDTH, VALUE_WIDTH = 900, 300, 170
BAR, GROUP_GAP, PANEL_GAP, LINE = 14, 7, 16, 18
FONT = "font-family='Helvetica, Arial, sans-serif'"


class Panel:
    """Groups of bars on one scale from 0. A group: its label and, for each series, a value with its text or None."""

    def __init__(self, caption, groups):
        self.caption, self.groups = caption, groups

    def top(self):
        return max((bar[0] for _, bars in self.groups for bar in bars if bar), default=0) or 1


def text(x, y, content, fill, size=12, anchor="start", weight="normal"):
    return "<text x='%.1f' y='%.1f' font-size='%d' fill='%s' text-anchor='%s' font-weight='%s' %s>%s</text>" % (
        x, y, size, fill, anchor, weight, FONT, escape(content))


def rectangle(x, y, width, height, fill):
    return "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='%s'/>" % (x, y, width, height, fill)


def legend(series, y, theme):
    x = LABEL_WIDTH
    for name, colour in zip(series, theme.colours):
        yield rectangle(x, y - 10, 12, 12, colour)
        yield text(x + 17, y, name, theme.ink)
        x += 40 + 7 * len(name)


def group(label, bars, y, scale, theme):
    """The shapes of one group, and its height. A series without a value takes no room."""
    present = [(bar, colour) for bar, colour in zip(bars, theme.colours) if bar]
    height = BAR * len(present)
    shapes = [text(LABEL_WIDTH - 8, y + height / 2 + 4, label, theme.ink, anchor="end")]
    for number, ((value, value_text), colour) in enumerate(present):
        width = max(value * scale, 1)
        shapes.append(rectangle(LABEL_WIDTH, y + number * BAR, width, BAR - 2, colour))
        shapes.append(text(LABEL_WIDTH + width + 5, y + number * BAR + BAR - 4, value_text, theme.ink, size=11))
    return shapes, height + GROUP_GAP


def bar_chart(title, series, panels, theme=LIGHT):
    """The text of an SVG file."""
    shapes, y = [text(16, 28, title, theme.ink, size=16, weight="bold")], 52
    shapes += legend(series, y, theme)
    for panel in panels:
        y += PANEL_GAP + LINE
        shapes.append(text(16, y, panel.caption, theme.faint, weight="bold"))
        y += 10
        scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / panel.top()
        for label, bars in panel.groups:
            drawn, height = group(label, bars, y, scale, theme)
            shapes += drawn
            y += height
    height = y + 12
    head = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' role='img'>" % (
        WIDTH, height, WIDTH, height)
    return "\n".join([head, "<title>%s</title>" % escape(title), rectangle(0, 0, WIDTH, height, theme.ground),
                      *shapes, "</svg>"]) + "\n"
