"""What programs write is shown as they meant it, and can do nothing else."""

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkpoints import prose

ATTRIBUTES = {"href", "rel", "align", "value"}


class Seen(HTMLParser):
    """What a browser would find in it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words = ""
        self.other: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_endtag(self, tag):
        self.tags.append(tag)

    def handle_data(self, data):
        self.words += data

    def handle_comment(self, data):
        self.other.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment

    @property
    def links(self) -> list[str]:
        return [value or "" for name, value in self.attributes if name == "href"]


def assert_harmless(html: str) -> Seen:
    seen = Seen(html)
    assert set(seen.tags) <= prose.TAGS
    assert {name for name, _ in seen.attributes} <= ATTRIBUTES
    assert all(link.lower().startswith(("http://", "https://", "mailto:")) for link in seen.links)
    assert seen.other == []
    return seen


# --- As it was meant ----------------------------------------------------------------------------------------------


def test_markdown_becomes_html():
    html = prose.to_html("# Refund\n\nPay **EUR 1,240** to *Acme*, not ~~Apex~~:\n\n- now\n- `soon`\n\n> quoted")
    for part in ("<h3>Refund</h3>", "<strong>EUR 1,240</strong>", "<em>Acme</em>", "<s>Apex</s>", "<code>soon</code>"):
        assert part in html
    assert assert_harmless(html).tags.count("li") == 4


def test_the_lines_of_plain_text_stay_lines():
    assert prose.to_html("Refund?\nOrder 17") == "<p>Refund?<br>\nOrder 17</p>\n"


def test_a_table_keeps_its_columns():
    html = prose.to_html("| item | price |\n|---|--:|\n| chair | 40 |")
    assert '<th align="left">item</th>' in html
    assert '<td align="right">40</td>' in html


def test_a_list_keeps_the_numbers_that_were_written():
    written = "3. this\n7. that"
    assert '<li value="7">' in prose.to_html(written)
    assert prose.to_text(written) == "3. this\n7. that"


def test_a_link_opens_without_telling_where_from():
    html = prose.to_html("[the case](https://cases.example/17?a=1&b=2)")
    rel = 'rel="noopener noreferrer nofollow"'
    assert html == f'<p><a href="https://cases.example/17?a=1&amp;b=2" {rel}>the case</a></p>\n'


@pytest.mark.parametrize("written", ["[the case](https://cases.example/17)", "![the case](https://cases.example/17)"])
def test_without_links_the_address_follows_in_brackets(written):
    html = prose.to_html(written, links=False)
    assert html == "<p>the case (https://cases.example/17)</p>\n"
    assert prose.to_text(written) == "the case (https://cases.example/17)"


def test_an_address_that_is_its_own_text_is_said_once():
    written = "<https://cases.example/17> and <ann@acme.example>"
    assert prose.to_html(written, links=False) == "<p>https://cases.example/17 and ann@acme.example</p>\n"
    assert prose.to_text(written) == "https://cases.example/17 and ann@acme.example"


def test_markdown_reads_well_as_text():
    written = """# Refund
Pay **EUR 1,240**, not ~~EUR 12~~.

- first
- second
  - inner

> Please hurry.

| item | price |
|---|---|
| chair | 40 |

```
code
```
"""
    assert (
        prose.to_text(written)
        == """Refund

Pay EUR 1,240, not ~~EUR 12~~.

- first
- second
  - inner

> Please hurry.

item | price
--------------------
chair | 40

    code"""
    )


def test_text_is_wrapped_and_hangs_below_its_bullet():
    text = prose.to_text("- " + "word " * 30 + "\n\n> " + "word " * 30, width=72)
    lines = text.split("\n")
    assert max(len(line) for line in lines) <= 72
    assert lines[0].startswith("- word")
    assert lines[1].startswith("  word")
    assert lines[-1].startswith("> word")


def test_an_address_is_never_broken():
    address = "https://cases.example/" + "a" * 200
    assert address in prose.to_text(f"See [it]({address}).", width=72)


def test_the_first_line_that_says_something_is_its_line():
    assert prose.to_line("\n\n## Refund **EUR 1,240**?\n\nOrder 17") == "Refund EUR 1,240?"
    assert prose.to_line(" \n ") == ""


def test_a_long_line_is_cut_at_a_word():
    line = prose.to_line("word " * 100, most=50)
    assert len(line) <= 50
    assert line.endswith("word…")


# --- And nothing else ---------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    '<div x-data="{}" x-init="alert(1)" @click="alert(1)" :class="alert(1)">',
    "<!-- --><![CDATA[x]]><?php ?>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "[x](vbscript:x)",
    "[x](//evil.example)",
    "[x](/admin/)",
    "<javascript:alert(1)>",
    "![x](javascript:alert(1))",
    '[x](https://a.example/"onmouseover="alert(1))',
    "[x](https://a.example 'x\" onclick=\"alert(1)')",
    '[x](<https://a.example/"><script>alert(1)</script>>)',
    '```x" onload="alert(1)\ncode\n```',
    '| a |\n|:-:|\n| <b onclick="x"> |',
    "`<script>`",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "[a]: javascript:alert(1)\n\n[a]",
    "\\<script>alert(1)\\</script>",
]


@pytest.mark.parametrize("written", HOSTILE)
@pytest.mark.parametrize("links", [True, False])
def test_nothing_hostile_gets_through(written, links):
    seen = assert_harmless(prose.to_html(written, links=links))
    assert links or seen.links == []


def test_no_image_is_fetched_from_elsewhere():
    html = prose.to_html("![pixel](https://tracker.example/1.png)")
    assert "<img" not in html
    assert "pixel (https://tracker.example/1.png)" in html


@pytest.mark.parametrize(
    "hidden", ["\u202e", "&#x202E;", "\u2066", "\u200b", "&#8203;", "\ufeff", "\x00", "\x1b", "\U000e0041", "\u200f"]
)
def test_characters_that_nobody_sees_are_taken_out(hidden):
    written = f"Refund EUR 1{hidden}20?"
    assert prose.to_html(written) == "<p>Refund EUR 120?</p>\n"
    assert prose.to_text(written) == prose.to_line(written) == "Refund EUR 120?"


def test_letters_of_other_scripts_and_emoji_stay():
    written = "استرداد می\u200cخواهم 👩\u200d💻 для Ärzte 返金"  # noqa: RUF001 (they are meant)
    assert prose.to_text(written) == written


def test_what_is_nested_too_deep_is_shown_as_it_was_written():
    """The reader of Markdown would drop it, and somebody would decide without having seen it."""
    written = "> " * 60 + "and EUR 1,000,000 more"
    assert "and EUR 1,000,000 more" in prose.to_html(written)
    assert "and EUR 1,000,000 more" in prose.to_text(written)


def test_a_definition_is_shown_rather_than_swallowed():
    assert "https://a.example" in prose.to_html("[note]: https://a.example 'and EUR 1,000,000 more'")


NASTY = {
    "brackets": "[" * 50_000,
    "quotes": ">" * 50_000,
    "stars": "*" * 50_000,
    "openings": "*a " * 33_000,
    "emphasis": "*a_b" * 25_000,
    "images": "![" * 50_000,
    "links": "[[a](" * 20_000,
    "nested links": "[" * 10_000 + "a" + "](x)" * 10_000,
    "backticks": "".join("`" * size + " " for size in range(440)),
    "bullets": "- " * 50_000,
    "items": "- a\n" * 25_000,
    "lazy quotes": ">" * 19 + "a\n" * 40_000,
    "cells": "|a" * 25_000 + "\n" + "|-" * 25_000 + "\n",
    "angles": "<a" * 50_000,
    "entities": "&" * 100_000,
    "long line": "a" * 100_000,
    "a megabyte": "[*_`<" * 200_000,
}


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("most", [prose.LONGEST, None])
def test_nasty_nesting_costs_a_moment_at_most(name, most):
    started = time.process_time()
    html = prose.to_html(NASTY[name][:most])
    prose.to_text(NASTY[name][:most], width=72)
    prose.to_line(NASTY[name][:most])
    assert time.process_time() - started < 10
    assert set(Seen(html).tags) <= prose.TAGS


# fmt: off
PIECES = st.sampled_from([
    "<", ">", "[", "]", "(", ")", "*", "_", "`", "~~", "|", "-", "#", "!", "&", ";", '"', "'", "\n", "\n\n", " ", "\t",
    "javascript:", "https://a.example", "x-data=", "@click=", ":class=", "onload=", "script", "<!--", "]]>", "1. ",
    "&#x202e;", "&lt;", "\\", "```", "|---|", "> ", "mailto:a@b.c", "style=", "{{", "}}", "\u2028", "\x00",
])
# fmt: on


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(written=st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join), links=st.booleans())
def test_there_is_never_a_tag_that_is_not_in_the_list(written, links):
    seen = assert_harmless(prose.to_html(written, links=links))
    assert links or seen.links == []
    prose.to_text(written, width=40)
    assert "\n" not in prose.to_line(written)


@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(written=st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
def test_markdown_eats_marks_but_no_words(written):
    """But for titles of links, names of code blocks, and cells beyond a table's last column."""
    if not any(mark in written for mark in ("```", "~~~", "](", "|")):
        shown = Seen(prose.to_html(written)).words
        assert all(word in shown for word in ("javascript", "onload", "script") if word in written)
