"""What programs and people wrote, plain or in Markdown, as safe HTML and as readable text.

Safe by construction: markdown-it only reads. Every tag is written here, from a list, and with attributes of our own.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

# Beyond this it is shown as it was written: reading Markdown of any length would keep a process busy.
LONGEST = 30_000
# The reader drops blocks that are nested deeper. Nothing may vanish from a question, so those are shown as written.
DEEPEST = 20

# fmt: off
TAGS = frozenset({
    "p", "h3", "h4", "h5", "h6", "hr", "br", "blockquote", "pre", "ul", "ol", "li",
    "table", "thead", "tbody", "tr", "th", "td", "a", "em", "strong", "s", "code",
})
# fmt: on
SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
REL = "noopener noreferrer nofollow"

# Control characters, and what turns the reading direction or hides between letters: with them “021 RUE” reads EUR 120.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
LINE_ENDS = re.compile("\r\n|[\r\x85\u2028\u2029]")


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
    reader.enable(["table", "strikethrough"])
    # Definitions of references would be read by the program alone.
    reader.disable(["html_block", "html_inline", "reference"])
    reader.validateLink = lambda url: SAFE_LINK.match(url) is not None  # type: ignore[method-assign]
    # Its list of rules is put together at the first use, which two threads must not do at once.
    reader.parse("ready")
    return reader


_markdown = _reader()


def to_html(text: str, *, links: bool = True, styles: Mapping[str, str] | None = None) -> SafeString:
    """``links=False`` for mails, which carry one link of their own. ``styles``: CSS per tag, for mails as well."""
    tokens = _parse(text)
    if tokens is None:
        lines = escape(visible(text)).replace("\n", "<br>\n")
        return mark_safe(f"{_opened('p', styles or {})}{lines}</p>\n")  # noqa: S308 (escaped in the line above)
    return mark_safe("".join(_html(tokens, links, styles or {})))  # noqa: S308 (each part is escaped or from TAGS)


def to_text(text: str, *, width: int | None = None) -> str:
    """Readable without any markup; wrapped where a width is given."""
    page = _Page(width)
    tokens = _parse(text)
    if tokens is None:
        page.write(visible(text).split("\n"))
    else:
        page.read(tokens)
    return page.text()


def to_line(text: str, *, most: int = 150) -> str:
    """The first line that says something, for a subject or a list."""
    for line in to_text(text[: 20 * most]).split("\n"):
        if words := " ".join(line.split()):
            return shorten(words, most)
    return ""


def visible(text: str) -> str:
    """Without the characters that nobody sees."""
    return INVISIBLE.sub("", LINE_ENDS.sub("\n", text))


def shorten(text: str, most: int) -> str:
    """Cut at a word where there is one."""
    if len(text) <= most:
        return text
    kept = text[: most - 1]
    at_a_word = re.sub(r"\s+\S*\Z", "", kept)
    return f"{(at_a_word if len(at_a_word) > most // 2 else kept).rstrip()}…"


def _parse(text: str) -> list[Token] | None:
    """None: to be shown as it was written."""
    if len(text) > LONGEST:
        return None
    tokens = _markdown.parse(visible(text))
    return None if any(token.level >= DEEPEST - 1 for token in tokens) else tokens


# --- HTML ---------------------------------------------------------------------------------------------------------


def _html(tokens: Sequence[Token], links: bool, styles: Mapping[str, str]) -> Iterator[str]:
    address, said = "", ""
    for token in tokens:
        content = visible(token.content)
        said += content
        match token.type:
            case "inline":
                yield from _html(token.children or [], links, styles)
            case "softbreak" | "hardbreak":
                # Programs write plain text as well: their lines stay lines.
                yield "<br>\n"
            case "hr":
                yield f"{_opened('hr', styles)}\n"
            case "code_inline":
                yield f"{_opened('code', styles)}{escape(content)}</code>"
            case "fence" | "code_block":
                yield f"{_opened('pre', styles)}<code>{escape(content)}</code></pre>\n"
            case "link_open":
                address, said = str(token.attrs.get("href", "")), ""
                yield f'<a href="{escape(address)}" rel="{REL}">' if links else ""
            case "link_close":
                yield "</a>" if links else escape(_address_after(said, address))
            case "image":
                yield escape(_instead_of_image(token))
            case _ if token.nesting and not token.hidden:
                yield _tag_of(token, styles)
            case _:
                yield escape(content) if token.type == "text" else "\n"


def _tag_of(token: Token, styles: Mapping[str, str]) -> str:
    """An opening or closing tag. What is not in the list has no tag."""
    # The page around it has headings of its own.
    name = f"h{min(int(token.tag[1]) + 2, 6)}" if re.fullmatch("h[1-6]", token.tag) else token.tag
    if name not in TAGS:
        return ""
    inline = name in {"em", "strong", "s"}
    if token.nesting < 0:
        return f"</{name}>" if inline else f"</{name}>\n"
    return _opened(name, styles, _attribute_of(name, token))


def _attribute_of(name: str, token: Token) -> str:
    if name == "li" and token.info.isdecimal():
        # Markdown would count on from the first; people refer to the numbers they wrote.
        return f' value="{int(token.info)}"'
    aligned = re.fullmatch("text-align:(left|center|right)", str(token.attrs.get("style", "")))
    if name in {"th", "td"} and aligned:
        return f' align="{aligned[1]}"'
    return ' align="left"' if name == "th" else ""


def _opened(name: str, styles: Mapping[str, str], attribute: str = "") -> str:
    style = f' style="{escape(styles[name])}"' if name in styles else ""
    return f"<{name}{attribute}{style}>"


def _address_after(said: str, address: str) -> str:
    """`` (https://…)``, unless the link's own words say it."""
    return "" if said.strip() in {address, address.removeprefix("mailto:")} else f" ({address})"


def _instead_of_image(token: Token) -> str:
    """Nothing is fetched from elsewhere by looking at a page or a mail."""
    words, address = visible(token.content), str(token.attrs.get("src", ""))
    return f"{words or 'image'}{_address_after(words, address)}"


# --- Text ---------------------------------------------------------------------------------------------------------


class _Page:
    """Lines of text under construction: quotes and lists stand on the left of what is inside them."""

    def __init__(self, width: int | None) -> None:
        self.width = width
        self.lines: list[str] = []
        # Each is what stands left of the first line, and left of the following ones.
        self.margins: list[tuple[str, str]] = []
        self.lists = 0
        self.cells: list[str] | None = None
        self.gap = False

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines).strip("\n")

    def read(self, tokens: Sequence[Token]) -> None:
        hidden = False
        for token in tokens:
            match token.type:
                case "paragraph_open":
                    hidden = token.hidden
                case "inline" if self.cells is not None:
                    self.cells.append(" ".join(_words(token.children or []).split()))
                case "inline":
                    self.write(_words(token.children or []).split("\n"), gap=not hidden)
                    hidden = False
                case "fence" | "code_block":
                    code = visible(token.content).rstrip("\n")
                    self.write([f"    {line}" for line in code.split("\n")], wrapped=False)
                case "hr":
                    self.write(["-" * 20], wrapped=False)
                case "thead_close":
                    self.write(["-" * 20], wrapped=False, gap=False)
                case "tr_open":
                    self.cells = []
                case "tr_close":
                    self.write([" | ".join(self.cells or [])], gap=False)
                    self.cells = None
                case "table_close":
                    self.gap = True
                case _:
                    self._margin(token)

    def _margin(self, token: Token) -> None:
        match token.type:
            case "blockquote_open":
                self._leave_gap()
                self.margins.append(("> ", "> "))
            case "bullet_list_open" | "ordered_list_open":
                self.lists += 1
            case "list_item_open":
                mark = f"{token.info}. " if token.info.isdecimal() else "- "
                self.margins.append((mark, " " * len(mark)))
            case "list_item_close" | "blockquote_close":
                self.margins.pop()
            case "bullet_list_close" | "ordered_list_close":
                self.lists -= 1
                self.gap = self.gap or not self.lists

    def write(self, lines: Sequence[str], *, wrapped: bool = True, gap: bool = True) -> None:
        self._leave_gap()
        for line in lines:
            first = "".join(mark for mark, _ in self.margins)
            self.margins = [(later, later) for _, later in self.margins]
            later = "".join(mark for mark, _ in self.margins)
            self.lines.extend(self._wrapped(line, first, later) if wrapped else [first + line])
        self.gap = gap

    def _leave_gap(self) -> None:
        if self.gap and self.lines:
            self.lines.append("".join(later for _, later in self.margins))
        self.gap = False

    def _wrapped(self, line: str, first: str, later: str) -> list[str]:
        if self.width is None:
            return [first + line]
        room = max(self.width - len(first), 30)
        # An address must stay whole, or it leads nowhere.
        parts = textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False) or [""]
        return [first + parts[0], *(later + part for part in parts[1:])]


def _words(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    address, start = "", 0
    for token in tokens:
        match token.type:
            case "text" | "code_inline":
                parts.append(visible(token.content))
            case "softbreak" | "hardbreak":
                parts.append("\n")
            case "s_open" | "s_close":
                # Without its marks, what was struck out would be said.
                parts.append("~~")
            case "image":
                parts.append(_instead_of_image(token))
            case "link_open":
                address, start = str(token.attrs.get("href", "")), len(parts)
            case "link_close":
                parts.append(_address_after("".join(parts[start:]), address))
    return "".join(parts)
