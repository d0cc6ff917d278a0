"""The pictures on the cards of the gallery: a shape and few words, drawn for the size of a card.

Each shows what its page is about, and no result of it: those are on the page.
"""

from __future__ import annotations

from drawing import BLUE, GREY, INK, LINE, ORANGE, PAPER, SAND, SKY, SOFT, Drawing

WIDE, HIGH = 256, 160
BIG = 20  # of words, in pixels of a card


def words(d: Drawing, x: float, y: float, told: str, color: str = INK, at: str = "middle") -> None:
    """Write what can be read on a card."""
    d.text(x, y, told, BIG, color, at, bold=True)


def clinic() -> str:
    """Draw fewer patients from test to test."""
    d = Drawing(WIDE, HIGH, "Most patients are asked, fewer are tested")
    for i, (name, part, fill) in enumerate(
        (("ask", 228, BLUE), ("draw blood", 156, BLUE), ("ECG", 84, BLUE))
    ):
        d.box(242 - part, 12 + 47 * i, part, 42, fill)
        words(d, 242 - part / 2, 40 + 47 * i, name, PAPER)
    return d.svg()


def phishing() -> str:
    """Draw an address that is read, and a page that is not fetched."""
    d = Drawing(WIDE, HIGH, "The address is read, the page is not fetched")
    d.box(14, 14, 228, 40, BLUE)
    words(d, 128, 41, "http://bank.x", PAPER)
    d.box(14, 58, 228, 88, GREY)
    words(d, 128, 110, "fetch the page?", INK)
    return d.svg()


def intrusion() -> str:
    """Draw connections, one of them of a kind that nobody has seen."""
    d = Drawing(WIDE, HIGH, "Connections, and one of a new kind")
    for row in range(2):
        for i in range(6):
            is_new = (row, i) == (1, 3)
            d.box(14 + 39 * i, 16 + 40 * row, 33, 33, ORANGE if is_new else BLUE)
    words(d, 147.5, 80, "?", PAPER)
    words(d, 128, 130, "a new attack", ORANGE)
    return d.svg()


def credit_bureau() -> str:
    """Draw a fee that is paid once, for three reports."""
    d = Drawing(WIDE, HIGH, "One fee for three reports")
    d.box(64, 14, 128, 44, ORANGE)
    words(d, 128, 43, "one fee", PAPER)
    for i in range(3):
        x = 14 + 79 * i
        d.line((128, 58), (x + 35, 92), color=LINE, width=3)
        d.box(x, 92, 70, 54, BLUE)
        words(d, x + 35, 126, str(i + 1), PAPER)
    return d.svg()


def money_and_time() -> str:
    """Draw less money for more days."""
    d = Drawing(WIDE, HIGH, "Less money, more days")
    d.line((50, 14), (50, 122), (242, 122), color=SOFT, width=2)
    for x, y in ((70, 34), (98, 68), (136, 88), (178, 100), (222, 106)):
        d.dot(x, y, 9, BLUE)
    words(d, 242, 148, "days", at="end")
    words(d, 110, 36, "money", at="start")
    d.dot(70, 34, 9, ORANGE)
    return d.svg()


def unequal_harms() -> str:
    """Draw two harms of different weight."""
    d = Drawing(WIDE, HIGH, "A missed patient weighs more than a needless visit")
    d.line((30, 122), (226, 78), color=SOFT, width=5)
    d.parts.append(f'<path d="M128 102L154 148H102z" fill="{SOFT}"/>')
    d.box(20, 52, 96, 54, ORANGE)
    words(d, 68, 86, "missed", PAPER)
    d.box(170, 46, 60, 40, SKY)
    words(d, 200, 73, "visit", INK)
    return d.svg()


def fraud_review() -> str:
    """Draw many shops, few of which come to a desk."""
    d = Drawing(WIDE, HIGH, "Few of many shops come to a desk")
    for row in range(4):
        for i in range(7):
            is_sent = (row, i) in ((1, 4), (2, 6))
            d.dot(24 + 20 * i, 26 + 20 * row, 7, ORANGE if is_sent else SKY)
    d.arrow(168, 58, 190, 58)
    d.box(194, 30, 48, 56, ORANGE)
    words(d, 218, 65, "?", PAPER)
    words(d, 128, 134, "a desk for few", INK)
    return d.svg()


def drift() -> str:
    """Draw a figure that falls after a change, and an alarm."""
    d = Drawing(WIDE, HIGH, "A figure falls after a move, and there is an alarm")
    d.box(130, 10, 116, 140, SAND)
    d.line((14, 40), (36, 46), (58, 36), (80, 44), (102, 38), (130, 42), (152, 78), (174, 96),
           (196, 90), (242, 100), color=BLUE, width=5)  # fmt: skip
    d.dot(174, 96, 9, ORANGE)
    words(d, 186, 136, "alarm", ORANGE)
    words(d, 70, 136, "as usual", INK)
    return d.svg()


def redis() -> str:
    """Draw a store, of which few keys are asked for."""
    d = Drawing(WIDE, HIGH, "Few keys of a store are asked for")
    for row in range(3):
        for i in range(8):
            is_read = (row, i) in ((0, 1), (1, 4), (2, 2), (2, 6))
            d.box(14 + 29 * i, 14 + 29 * row, 25, 25, BLUE if is_read else GREY)
    words(d, 128, 134, "few lookups", INK)
    return d.svg()


def warehouse() -> str:
    """Draw columns of files, most of which are never read."""
    d = Drawing(WIDE, HIGH, "Most parts of most columns are never read")
    for column in range(8):
        d.box(14 + 29 * column, 14, 25, 20, BLUE)
        for part in range(3):
            is_read = (column, part) in ((1, 0), (1, 1), (5, 0))
            d.box(14 + 29 * column, 38 + 24 * part, 25, 20, BLUE if is_read else GREY)
    words(d, 128, 138, "never read", INK)
    return d.svg()


def text_cascade() -> str:
    """Draw a cheap stage before a dear one."""
    d = Drawing(WIDE, HIGH, "Most messages are answered by counting words")
    d.box(14, 14, 228, 48, BLUE)
    words(d, 128, 45, "count words", PAPER)
    d.arrow(218, 64, 218, 92)
    words(d, 200, 88, "in doubt", SOFT, "end")
    d.box(86, 98, 156, 48, ORANGE)
    words(d, 164, 129, "transformer", PAPER)
    return d.svg()


def groups() -> str:
    """Draw two groups, of which one gets fewer answers."""
    d = Drawing(WIDE, HIGH, "One of two groups gets fewer answers")
    for row, answered in enumerate((6, 4)):
        for i in range(7):
            d.dot(32 + 32 * i, 34 + 42 * row, 13, BLUE if i < answered else GREY)
    words(d, 128, 138, "no answer?", INK)
    return d.svg()


PAGES = (
    clinic,
    phishing,
    intrusion,
    credit_bureau,
    money_and_time,
    unequal_harms,
    groups,
    fraud_review,
    drift,
    redis,
    warehouse,
    text_cascade,
)
THUMBNAILS = {f"thumbnails/{page.__name__}.svg": page for page in PAGES}
