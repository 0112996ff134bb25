"""Texts that mean nothing, of any length: repeats, nestings, long runs and mixtures at which careless patterns stop."""

from __future__ import annotations

import random
from collections.abc import Callable

Shape = Callable[[int], str]
"""A length in characters -> a text of about this length."""


def repeated(unit: str, before: str = "", after: str = "") -> Shape:
    """A unit again and again, cut to the length, between a beginning and an end."""

    def text(length: int) -> str:
        return before + (unit * (length // len(unit) + 1))[:length] + after

    return text


def halves(first: str, second: str) -> Shape:
    """Half the text of one unit, half of another one, as of what opens and what closes."""

    def text(length: int) -> str:
        return first * (length // 2 // len(first)) + second * (length // 2 // len(second))

    return text


def numbered(unit: str) -> Shape:
    """Units that all differ, by the number in the place of `{}`."""

    def text(length: int) -> str:
        parts: list[str] = []
        size = 0
        while size < length:
            parts.append(unit.replace("{}", str(len(parts))))
            size += len(parts[-1])
        return "".join(parts)

    return text


def drawn(alphabet: str, seed: int = 0) -> Shape:
    """Characters of an alphabet at random."""

    def text(length: int) -> str:
        return "".join(random.Random(seed).choices(alphabet, k=length))

    return text


def growing(unit: str, end: str) -> Shape:
    """Lines of one unit, two units, three units ...: such as backticks of all lengths."""

    def text(length: int) -> str:
        parts: list[str] = []
        size = 0
        while size < length:
            parts.append(unit * (len(parts) + 1) + end)
            size += len(parts[-1])
        return "".join(parts)

    return text


def deepening(unit: str) -> Shape:
    """Lines that stand deeper and deeper, as a nested list does."""

    def text(length: int) -> str:
        lines: list[str] = []
        size = 0
        while size < length:
            lines.append("  " * len(lines) + unit)
            size += len(lines[-1]) + 1
        return "\n".join(lines)

    return text


def table(row: str) -> Shape:
    """A table of two columns whose further rows are all the same."""
    return repeated(row, before="| a | b |\n|---|---|\n")


def padded_table(length: int) -> str:
    """A table with as many columns as rows, whose rows have one cell: a renderer fills in the others."""
    columns = max(2, int((length / 4) ** 0.5))
    head = "|a" * columns + "|\n" + "|-" * columns + "|\n"
    return head + "|a|\n" * ((length - len(head)) // 4)


PROSE = """the parcel has not arrived yet, so where is my refund? Ask e-mail@shop.example or 0800 123 456.
On 12/11/2026 I paid 1,000.50 € for it."""


def prose(length: int) -> str:
    """What people write, made of words of several lengths."""
    return (" ".join(random.Random(1).choices(PROSE.split(" "), k=length // 4 + 1)))[:length]


def fibonacci(length: int) -> str:
    """A text that almost repeats itself everywhere."""
    shorter, longer = "a ", "b a "
    while len(longer) < length:
        shorter, longer = longer, longer + shorter
    return longer[:length]


SHAPES: dict[str, Shape] = {
    # Digits and what groups them
    "groups of three digits": repeated("000 "),
    "one group, then text": repeated("1 000 000 ", after=" Euro"),
    "groups by commas": repeated("000,"),
    "groups by apostrophes": repeated("000'"),
    "groups by points": repeated("1.000."),
    "groups by every sign": repeated("000,000.000 000'"),
    "one number": repeated("7"),
    "a number and a letter in turn": repeated("1a"),
    "dates": repeated("12/11/2026-"),
    "addresses of machines": repeated("8.8.8.8 "),
    "numbers that all differ": numbered("{} "),
    "groups that all differ": numbered("1 {} 000,{}."),
    "raised digits": repeated("1²"),
    "digits of five scripts": repeated("1٢३৪๕"),
    "fractions": repeated("½ 1⅓"),
    "ranges": repeated("10-20-"),
    "decimals": repeated("1.5kg"),
    # Letters
    "one letter": repeated("a"),
    "one letter, then a dotless i": repeated("a", after=" ı"),
    "dotless i": repeated("ı"),
    "dotless words": repeated("ışık "),
    "capital I with and without its dot": repeated("Iİ"),
    "capitals inside": repeated("aB"),
    "capitals": repeated("A"),
    "capitals with points": repeated("A."),
    "words written large": repeated("Aa "),
    "points and digits": repeated(".1"),
    "one word": repeated("help "),
    "one word, then another": repeated("help ", after="me"),
    "two words in turn, then the first": repeated("to be ", after="to"),
    "Fibonacci's word": fibonacci,
    "words that all differ": numbered("word{} "),
    "compounds that all differ": numbered("donau{}dampfschiff "),
    "letters at random": drawn("abcdefghijklmnopqrstuvwxyz     "),
    "two letters at random": drawn("ab "),
    "a word with itself": repeated("baden-baden "),
    "a word that ends like itself": repeated("aa-"),
    "prose": prose,
    # Signs within and around words
    "hyphens": repeated("-"),
    "parts by hyphens": repeated("a-"),
    "parts by points": repeated("a."),
    "parts by underscores": repeated("a_"),
    "parts by ampersands": repeated("a&"),
    "parts by apostrophes": repeated("l'eau'"),
    "elisions": repeated("dell'ordine "),
    "apostrophes": repeated("'"),
    "apostrophes between two letters": repeated("'", before="a", after="b"),
    "plus signs": repeated("+"),
    "plus signs after a letter": repeated("+", before="c", after="a"),
    "number signs": repeated("#"),
    "c++ and c#": repeated("c++c#"),
    "points": repeated("."),
    "commas": repeated(","),
    "semicolons": repeated(";"),
    "question marks": repeated("?"),
    "all ASCII signs": repeated("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "spaces": repeated(" "),
    "spaces between two letters": repeated(" ", before="a", after="b"),
    "tabs": repeated("\t"),
    "lines without text": repeated("\n"),
    "lines without text, then text": repeated("\n", before="a", after="a"),
    "lines of spaces": repeated(" \n"),
    "lines of spaces, then text": repeated("  \n", before="a", after="•"),
    "carriage returns": repeated("\r"),
    "both line ends": repeated("\r\n"),
    "form feeds": repeated("\f"),
    "other programs' line ends": repeated("\x0b\x1c\x85\u2028"),
    "wide spaces": repeated("\u3000"),
    "non-breaking spaces": repeated("a\u00a0"),
    "control characters": repeated("\x00\x01\x7f"),
    "trademarks": repeated("a™"),
    "ellipses": repeated("a…"),
    # Marks, joiners and what is not seen
    "accents on one letter": repeated("\u0301", before="a"),
    "accents of many kinds on one letter": drawn("\u0301\u0323\u0308\u0327\u0345", seed=2),
    "accents of two classes in turn": repeated("\u0301\u0323", before="a"),
    "letters with accents": repeated("e\u0301"),
    "Greek accents": repeated("α\u0301\u0313"),
    "Cyrillic stress": repeated("а\u0301"),
    "zero-width spaces": repeated("\u200b"),
    "zero-width spaces between letters": repeated("a\u200b"),
    "joiners": repeated("\u200d"),
    "non-joiners": repeated("می\u200cخواهم "),
    "direction marks": repeated("\u202e\u200f"),
    "soft hyphens": repeated("a\u00ad"),
    "variation selectors": repeated("☎\ufe0f"),
    "families": repeated("👨\u200d👩\u200d👧\u200d👦"),
    "one family without end": repeated("👨\u200d"),
    "skins": repeated("👍🏽"),
    "flags": repeated("🇩🇪"),
    "half flags": repeated("🇩"),
    "tags of a flag": repeated("\U000e0067", before="🏴"),
    "faces": repeated("😀"),
    "symbols": repeated("€"),
    "symbols and letters": repeated("a€"),
    "private characters": repeated("\ue000"),
    "lone surrogates": repeated("\ud800"),
    "circled": repeated("①"),
    "ligatures": repeated("ﷺ"),  # eighteen characters once they are made plain
    "noncharacters": repeated("\ufffe\uffff"),
    # Scripts
    "Chinese": repeated("退款需要多久"),
    "one Chinese character": repeated("中"),
    "Chinese at random": drawn("退款需要多久才能到账我的包裹在哪里"),
    "Chinese and Latin": repeated("中a"),
    "Japanese": repeated("パスワードを忘れました"),
    "half-width kana": repeated("ﾊﾟ"),
    "long vowels": repeated("ー"),
    "Korean": repeated("환불은얼마나걸리나요"),
    "one Korean syllable": repeated("가"),
    "parts of Korean syllables": repeated("ᄀ"),
    "Korean in parts": repeated("각"),
    "Thai": repeated("การคืนเงินใช้เวลานานเท่าไร"),
    "one Thai letter": repeated("ก"),
    "Thai marks": repeated("\u0e49", before="ก"),
    "Thai at random": drawn("กขคงจฉชซญดตถทธนบปผฝพฟภมยรลวศษสหอฮะาิีึืุูเแโใไ่้"),
    "Lao": repeated("ການສົ່ງ"),
    "Khmer": repeated("ការដឹកជញ្ជូន"),
    "Burmese": repeated("ပို့ဆောင်ခ"),
    "Arabic": repeated("والبالكال"),
    "Arabic with vowels": repeated("كَتَبَ"),
    "Arabic stretched": repeated("ـ", before="ا", after="ا"),
    "Hebrew with points": repeated("שָׁלוֹם"),
    "Hindi": repeated("हिन्दी"),
    "viramas": repeated("क्"),
    "nasals": repeated("न्क"),
    "Tamil": repeated("கொள்முதல்"),
    "Malayalam's chillus": repeated("ൺൻർൽ"),
    "Russian": repeated("возвратденег"),
    "Greek": repeated("ΕΠΙΣΤΡΟΦΗΣ"),
    "final sigmas": repeated("Σ"),
    "Georgian": repeated("დაბრუნება"),
    "Armenian": repeated("վերադարձ՞"),
    "Vietnamese": repeated("hoàntiền"),
    "German": repeated("donaudampfschifffahrt"),
    "sharp s": repeated("ß"),
    "Turkish": repeated("şifreğ"),
    "all scripts in turn": repeated("aαа中กが가عह"),
    "all scripts in words": repeated("word λόγος слово 字 คำ 言葉 말 كلمة शब्द "),
    # Brackets
    "brackets opened": repeated("["),
    "brackets closed": repeated("]"),
    "brackets nested": halves("[", "]"),
    "brackets in turn": repeated("[]"),
    "parentheses opened": repeated("("),
    "parentheses nested": halves("(", ")"),
    "words in parentheses": repeated("a(b)"),
    "braces": repeated("{"),
    "quotation marks": repeated('"'),
    "quotation marks of all kinds": repeated("„“«»‚‘"),
    "doubled quotation marks": repeated('""a'),
    # Markdown
    "asterisks": repeated("*"),
    "emphasis opened": repeated("*a "),
    "emphasis closed": repeated("a* "),
    "emphasis of three kinds": repeated("*a **a ***a "),
    "emphasis of both signs": repeated("*a_ _a* "),
    "emphasis nested": halves("*a ", " b*"),
    "strong nested": halves("**a ", " b**"),
    "emphasis crossed": repeated("**a *b** c*"),
    "emphasis within words": repeated("a**b"),
    "underscores": repeated("_"),
    "underscores opened": repeated("_a "),
    "backticks": repeated("`"),
    "backticks of all lengths": growing("`", "a"),
    "backticks opened": repeated("`a "),
    "fences": repeated("```\n"),
    "fences opened": repeated("```a\nb\n"),
    "fences of all lengths": growing("`", "\n"),
    "tildes": repeated("~~~\n"),
    "links opened": repeated("[a]("),
    "links": repeated("[a](b)"),
    "links nested": halves("[", "](a)"),
    "links in pointed brackets": repeated("[a](<b"),
    "links with titles opened": repeated('[a](b "'),
    "titles opened": repeated('[a](b "c '),
    "references": repeated("[a][b]"),
    "definitions": numbered("[a{}]: b\n"),
    "definitions opened": repeated("[a]: "),
    "pictures opened": repeated("!["),
    "pictures nested": halves("![", "](a)"),
    "pictures": repeated("![a](b.png)"),
    "escapes": repeated("\\"),
    "escaped brackets": repeated("\\["),
    "headings": repeated("# a\n"),
    "headings with closing signs": repeated("# a " + "#" * 50 + " b\n"),
    "one heading of signs": repeated("#", before="# a ", after=" b"),
    "a heading of spaces": repeated(" ", before="# a", after="#"),
    "underlined headings": repeated("a\n=\n"),
    "headings that all differ": numbered("## Heading {}?\ntext\n"),
    "the same heading": repeated("## Why?\ntext\n"),
    "headings without text": numbered("## Heading {}?\n"),
    "list": repeated("- a\n"),
    "list in one line": repeated("- "),
    "list with numbers": numbered("{}. a\n"),
    "list with deeper items": deepening("- a"),
    "list of deep items in turn": repeated("- a\n  - b\n    - c\n"),
    "list with loose items": repeated("- a\n\n"),
    "list of bullets": repeated("• a\n"),
    "bullets": repeated("•"),
    "bullets in lines": repeated("\n•"),
    "stars and numbers": repeated("* 1. "),
    "quotes": repeated("> "),
    "quotes in lines": repeated("> a\n"),
    "quotes of all depths": growing(">", "a\n"),
    "rules": repeated("---\n"),
    "code by indentation": repeated("    a\n"),
    "table": table("| c | d |\n"),
    "table with rows of one cell": padded_table,
    "table with one row": repeated("|a", before="| a | b |\n|---|---|\n"),
    "table with one heading": lambda length: "|a" * (length // 4) + "|\n" + "|-" * (length // 4) + "|\n",
    "bars": repeated("|"),
    "lines of bars": repeated("|\n"),
    "rows of lines": repeated("|-|-|\n"),
    "colons of tables": repeated(":-:|"),
    "backticks in a table": table("| `c | d` |\n"),
    "escaped bars": table("| c \\| d | e |\n"),
    "front matter opened": repeated("a: b\n", before="---\n"),
    "front matter": repeated("---\n"),
    "line ends of two spaces": repeated("a  \n"),
    # HTML
    "elements opened": repeated("<b>"),
    "elements nested": halves("<b>", "</b>"),
    "blocks nested": halves("<div>", "</div>"),
    "blocks opened": repeated("<div>a"),
    "elements closed": repeated("</b>"),
    "pointed brackets": repeated("<"),
    "pointed brackets closed": repeated(">"),
    "elements without end": repeated("<b "),
    "attributes": numbered(" a{}=b"),
    "attributes opened": repeated('<a b="'),
    "comments opened": repeated("<!--"),
    "comments": repeated("<!-- a -->"),
    "a comment of hyphens": repeated("-", before="<!--"),
    "declarations": repeated("<!A "),
    "sections of data": repeated("<![CDATA["),
    "instructions": repeated("<?a "),
    "entities": repeated("&amp;"),
    "entities escaped again and again": repeated("amp;", before="&", after="lt;"),
    "ampersands": repeated("&"),
    "numbered entities": repeated("&#"),
    "entities without end": repeated("&a"),
    "one entity without end": repeated("a", before="&"),
    "definition list": repeated("<dl><dt>a<dd>b</dl>"),
    "definition lists opened": repeated("<dl><dt>a<dd>"),
    "terms": numbered(
        "<dt>a{}<dd>b",
    ),
    "details": repeated("<details><summary>a?</summary>b</details>"),
    "details nested": halves("<details><summary>a?</summary>b", "</details>"),
    "details opened": numbered("<details><summary>a{}?</summary>b"),
    "headings of HTML": numbered("<h2>Heading {}?</h2>text"),
    "headings of HTML opened": repeated("<h2>a"),
    "headings of HTML nested": halves("<h1>", "</h1>"),
    "paragraphs": repeated("<p>a</p>"),
    "paragraphs in one another": repeated("<p>"),
    "lists of HTML nested": halves("<ul><li>", "</li></ul>"),
    "table of HTML": repeated("<tr><td>a<td>b", before="<table><tr><th>Question<th>Answer"),
    "tables of HTML nested": halves("<table><tr><td>", "</table>"),
    "tables of HTML opened": repeated("<table><tr><td>"),
    "buttons": repeated("<button>a</button>"),
    "links of HTML": repeated("<a href=b>a</a>"),
    "links of HTML nested": repeated("<a href=b>"),
    "spans with spaces": repeated("<span> </span>"),
    "line breaks": repeated("<br>"),
    "microdata": repeated(
        "<div itemscope itemtype='https://schema.org/Question'><b itemprop=name>a</b>"
        "<p itemprop=acceptedAnswer>b</p></div>"
    ),
    "microdata opened": repeated("<div itemtype=schema.org/Question><b itemprop=name>a</b><p itemprop=acceptedAnswer>"),
    "JSON-LD opened": repeated('<script type="application/ld+json">['),
    "scripts opened": repeated("<script>"),
    "sections of data in elements": repeated("<![a]>"),
    "declarations in elements": repeated("<!a><?b>"),
    "odd quotation marks in elements": repeated('<a b=">'),
    "ends without their beginning, opened": repeated("</a "),
    "values of a template opened": repeated("{{"),
    "tags of a template opened": repeated("{% a "),
    "comments of a template opened": repeated("{/*"),
    "imports": repeated("from 'a "),
    "comments of code opened": repeated("/*"),
    "escaped quotation marks": repeated('\\"', before='"'),
    "headers": repeated("<header>a<h1>b</h1></header>"),
    "headers opened": repeated("<header>a"),
    "mains": repeated("<main>a</main>"),
    # Addresses
    "addresses": repeated("https://a.example/b "),
    "addresses run together": repeated("https://a"),
    "one address": repeated("a", before="https://"),
    "an address of parentheses": repeated("(a)", before="https://"),
    "an address of parentheses opened": repeated("(", before="https://"),
    "addresses opened": repeated("https://"),
    "colons": repeated("://"),
    "mail": repeated("a@b.example "),
    "mail run together": repeated("a@b."),
    "signs of mail": repeated("@"),
    "a name of mail without end": repeated("a."),
    "hosts": repeated("a.b"),
    "credentials": repeated("https://a:b"),
    "passwords": repeated("password="),
    "password names": repeated("passw"),
    "tokens": repeated("Bearer abcdef "),
    # Tables of texts
    "cells": repeated("a,b\n", before="question,answer\n"),
    "cells in quotation marks": repeated('"a","b"\n', before="question,answer\n"),
    "a cell opened": repeated("a", before='question,answer\n"'),
    "cells with marks": repeated('"a""', before="question\tanswer\n"),
    "empty rows": repeated(",\n", before="question,answer\n"),
    "rows of tabs": repeated("\t\n"),
    "sep=": repeated("sep=,\n"),
    "formulas": repeated("=a\n"),
    "guarded formulas": repeated("\u02bc", after="="),
    "guarded formulas in lines": repeated("\n\u02bc="),
    "spaces before a formula": repeated(" ", after="="),
    "separators before a formula": repeated(", "),
    "objects": repeated('{"a":'),
    "lists of JSON": repeated("["),
    "objects in lines": repeated('{"question":"a","answer":"b"}\n'),
    "YAML": repeated("a: b\n"),
    "YAML nested": deepening("a:"),
    # Damage
    "UTF-8 read as another encoding": repeated("Ã©"),
    "UTF-8 read twice": repeated("Ãƒâ€š"),
    "placeholders": repeated("n/a "),
    "signs, then a letter": repeated("_-", after="x"),
    "lorem ipsum": repeated("lorem ipsum "),
    "controls of a terminal": repeated("\x1b[31m"),
    "everything at random": drawn("ab1 .,-'+#*_`[](){}<>|&;:/\\\"?!\n\t中กعé\u0301\u200b👍=@", seed=3),
}
