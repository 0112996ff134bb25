"""Patterns that were replaced by faster ones read the same: the old ones, which are slow for some texts, stand here."""

from __future__ import annotations

import importlib
import json
import random
import re
import unicodedata

import pytest
import regex

from ap_ranker.data.placeholders import says_nothing
from ap_ranker.documents import convert, markup_questions
from ap_ranker.search.load_pipeline import without_credentials
from ap_ranker.text import question_keys, reading
from ap_ranker.text.languages import UNSPACED
from ap_ranker.text.normal_form import FEW, normal_form
from ap_ranker.text.question_words import _NAME_BELOW

question_paragraphs = importlib.import_module("ap_ranker.documents.question_paragraphs")
sections = importlib.import_module("ap_ranker.documents.sections")  # a function of the room has the same name

MANY = 20_000


def texts(alphabet: list[str], *, longest: int = 14) -> list[str]:
    """Random texts of pieces that the patterns are about."""
    chooser = random.Random(0)
    return ["".join(chooser.choices(alphabet, k=chooser.randint(1, longest))) for _ in range(MANY)]


NUMBERS = [
    "0",
    "1",
    ".",
    ",",
    "'",
    "-",
    "a",
    "é",
    "_",
    " ",
    "000",
    "12",
    "1000",
    "0000",
    " 000",
    ",000",
    "'000",
    "中",
    "½",
    "٣",
]


def test_numbers_in_groups() -> None:
    joints = reading._JOINTS
    grouping = r"(?<=(?<![\p{L}\p{N}\p{M}.,])\d{1,3}(?: \d{3})*) (?=\d{3}(?!\d))"
    token = regex.compile(
        rf"[\p{{L}}\p{{N}}](?:[\p{{L}}\p{{N}}\p{{M}}]|[{joints}(](?=[\p{{L}}\p{{N}}])|(?<=\d),(?=\d)|{grouping})*"
        rf"(?:{reading._SIGNS})?"
    )
    thousands = regex.compile(r"(?<![\d.,])\d{1,3}([.,' ])\d{3}(?:\1\d{3})*(?!\1?\d)")
    for text in map(reading.softly_plain, texts(NUMBERS)):
        assert reading._TOKEN.findall(text) == token.findall(text), text
        without = reading._THOUSANDS.sub(reading._without_grouping, text)
        assert without == thousands.sub(lambda number: reading._JOINT.sub("", number[0]), text), text


def test_a_dotless_i() -> None:
    dotless = regex.compile(r"\w*ı\w*")
    for text in texts(["ı", "a", "ş", "ü", " ", "-", "_", "1", "\u0301", "中"]):
        old = dotless.sub(lambda word: word[0].replace("ı", "i") if reading.TURKISH & set(word[0]) else word[0], text)
        assert question_keys._LETTERS_OF_WORD.sub(question_keys._dotted, text) == old


def test_what_is_said() -> None:
    said = regex.compile(
        rf"[{UNSPACED}]\p{{M}}*"
        r"|\d+(?:[.,:/\-]\d+){1,3}|(?<![\w\-])(\p{L}+)-\1(?![\w\-])"
        rf"|[\p{{L}}\p{{N}}\p{{M}}--[{UNSPACED}]]+[+#]*",
        regex.V1 | regex.IGNORECASE,
    )
    for text in texts(["8", "12", ".", "/", "-", ":", "a", "A", "ab", "é", "中", "ก", "\u0e49", " ", "+", "#", "٣"]):
        new = [match[0] for match in reading._SAID.finditer(text)]
        assert new == [match[0] for match in said.finditer(text)], text


MARKS = [chr(code) for code in range(0x300, 0x370)]
MARKS += list("\u0f73\u0f75\u0f81\u0344\u0903\u20dd\u05b0\u0591\uff9e\uff9f")


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normal_forms(form: str) -> None:
    chooser = random.Random(0)
    for _ in range(300):
        parts = [chooser.choice(["a", "é", "ế", "각", "ᄀ", "ﾊ", "中", "क", ""]) for _ in range(3)]
        text = "".join(part + "".join(chooser.choices(MARKS, k=chooser.choice([1, 5, FEW, 2 * FEW]))) for part in parts)
        assert normal_form(form, text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]


def test_placeholders() -> None:
    old = re.compile(
        r"[\W_]*(?:n\W?a|none|null|nan|tbd|tba|todo|to do|xxx+|test|lorem ipsum\b.*|#ref!?|#value!?|#name\??)?[\W_]*",
        re.IGNORECASE | re.DOTALL,
    )
    pieces = ["n", "a", "N/A", "none", "tbd", "xxx", "x", "lorem ipsum", "#ref", "#value!", "#name?", "ref", "#", "!"]
    for text in texts([*pieces, "_", "-", " ", "\n", "?", "é"], longest=5):
        assert bool(says_nothing(text)) == bool(old.fullmatch(text)), text


def test_credentials_are_hidden_as_before() -> None:
    names = r"[\w.-]*(?:passw|secret|token|auth|credential|api[_-]?key|signature)[\w.-]*"
    value = r"""(?:\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|'[^']*'|"[^"]*"|[^\s,;&'")\]}]+)"""
    patterns = [
        (re.compile(r"(\w://)[^\s'\"<>]*@"), r"\g<1>***@"),
        (re.compile(r"\b(Basic|Bearer|ApiKey)\s+[\w+/=.~-]{6,}", re.IGNORECASE), r"\g<1> ***"),
        (re.compile(rf"""(\b{names}["']?\s*[=:]\s*){value}""", re.IGNORECASE), r"\g<1>***"),
    ]
    quoted = ["'b'", '"b"', "['b', 'c']", "(b)", "{'b': 'c'}"]  # what is not closed is hidden now, and was not
    pieces = ["password", "api_key", "x.token", "a", "=", ": ", " ", ",", ";", "&", "://", "http://", "@", "-", "."]
    for text in texts([*pieces, *quoted, "Bearer abcdef"], longest=9):
        old = text
        for pattern, replacement in patterns:
            old = pattern.sub(replacement, old)
        assert without_credentials(text) == old, text


def test_code_between_headings() -> None:
    code = r"^(?P<fence>[ \t]*+(?:`{3,}+|~{3,}+))[^\n]*\n.*?^(?P=fence)[ \t]*$"
    heading = re.compile(rf"(?s:{code})|^(?P<level>#{{1,6}}) (?P<title>.+)$", re.MULTILINE)
    for text in texts(["```", "````", "~~~", "\n", "\n", "\n# a", "## b", "a", " ", "\n```\n", "\n~~~\n"]):
        old = [match[0] for match in heading.finditer(text) if match["level"]]
        assert [match[0] for match in sections._headings(text)] == old, text


def end_of(match: re.Match[str] | None) -> int:
    return match.end() if match else 0


def test_labels_of_questions_and_answers() -> None:
    question = re.compile(
        rf"\s*(?:(?:{question_paragraphs._QUESTION_WORDS})[ \t]*(?:no\.?|nr\.?|#)?[ \t]*[\d.]*[ \t]*"
        r"[:.)\u2013\uff1a-]+|q\d+)\s+(?=\S)",
        re.IGNORECASE,
    )
    answer = re.compile(r"\s*(?:a|answer|ans|antwort)[ \t]*\d*[ \t]*[:.)\uff1a]+\s*(?=\S)", re.IGNORECASE)
    number = re.compile(r"\s*[([]?\d{1,3}(?:\.\d{1,3})*[.):\]]*\s+(?=\S)")
    pieces = [
        "q",
        "Question",
        "faq",
        "a",
        "Answer",
        " ",
        "\t",
        "\n",
        "no",
        "nr.",
        "#",
        "1",
        "12",
        ".",
        ":",
        ")",
        "-",
        "x",
    ]
    for end in texts(pieces, longest=7):
        for text in (f"q{end}", f"a{end}", f"1{end}", f"question {end}", end):
            assert end_of(question_paragraphs.QUESTION_LABEL.match(text)) == end_of(question.match(text)), text
            assert end_of(question_paragraphs.ANSWER_LABEL.match(text)) == end_of(answer.match(text)), text
            assert end_of(question_paragraphs.NUMBER.match(text)) == end_of(number.match(text)), text


def test_marks_of_sites() -> None:
    old = re.compile(
        r"^[ \t]*(?::{3,}[ \t]*(?:[\w-]+(?:\{[^}\n]*\})?)?|[!?]{3}\+?[ \t]+[\w-]+|\{[%{]<?.*?>?[%}]\})[ \t]*"
        r"(?P<title>.*)$|^(?:import\b.*\bfrom\s+['\"].*['\"];?|import\s+['\"].*['\"];?"
        r"|export\s+(?:const|default|let)\b.*)[ \t]*$|\{/\*.*?\*/\}",
        re.MULTILINE,
    )
    pieces = ["import", "export", " from ", "'", '"', ";", " ", "a", "\n", "{/*", "*/}", ":::", "{%", "%}", "const "]
    for text in texts(pieces):
        new = convert._OF_SITES.sub(convert._title_of_mark, text)
        assert new == old.sub(lambda mark: (mark["title"] or "").strip(' "[]'), text), text


def test_a_name_below() -> None:
    old = regex.compile(
        r"(?<=[.?!\u3002\uff1f\uff01])[ \t]*\n\s*(?:[-\u2013\u2014]+\s*)?(?:\p{Lu}[\p{L}.'\u2019-]*[ \t]*){1,3}$"
    )
    for text in texts(["A", "a", ".", "?", "\n", " ", "-", "'", "1"]):
        assert _NAME_BELOW.sub("", text) == old.sub("", text), text


def test_what_stands_around_json() -> None:
    around = re.compile(
        r"\A(?:\s|<!--|(?://|/\*)?\s*<!\[CDATA\[(?:\s*\*/)?)+"
        r"|(?:\s|;|-->|(?://|/\*)?\s*\]\]>(?:\s*\*/)?|//\s*(?=-->|\]\]>))+\Z"
    )
    fault = re.compile(
        r'"(?:[^"\\]|\\.)*"|(?P<value>\{\{.*?\}\})|(?P<tag>\{%.*?%\}|/\*.*?\*/)|(?P<comma>,(?=\s*[\]}]))', re.DOTALL
    )

    def old(text: str) -> object:
        return json.loads(fault.sub(markup_questions._without_fault, around.sub("", text)), strict=False)

    chooser = random.Random(0)
    before = ["", " ", "<!--", "//", "/*", "<![CDATA[", "*/", "\n"]
    inside = ['"a"', ":", ",", "1", "{", "}", "[", "]", "{{a}}", "{% b %}", "/* c */", " ", "null"]
    behind = ["", " ", ";", "-->", "//", "/*", "]]>", "*/", "\n"]
    n_read = 0
    for _ in range(MANY):
        parts = [chooser.choices(some, k=count) for some, count in ((before, 3), (inside, 3), (behind, 3))]
        text = "".join(part for some in parts for part in some)
        try:
            expected = old(text)
        except ValueError:
            continue  # more may be read now
        n_read += 1
        assert markup_questions._parse_json_ld(text) == expected, text
    assert n_read > 100


def test_bullets() -> None:
    markdown = pytest.importorskip("ap_ranker.web.page.markdown", reason="the extra serve is not installed")
    old = re.compile(r"^(\s*)•(?=\s)", re.MULTILINE)
    for text in texts(["•", " ", "\n", "\n", "\t", "\r", "\x0b", "\u2028", "a", "-"]):
        assert markdown._BULLET.sub(r"\1-", text) == old.sub(r"\1-", text)


def test_ids_at_the_end_of_headings() -> None:
    own_id = re.compile(r"<(h[1-6])>(.*?)\s*\{:?\s*#([\w-]+)[^{}\n]*\}<(?=/\1>)")
    pieces = ["a", "<b>", "{", "}", "{#a}", "{: #b }", "\n", " "]
    for text in texts(pieces):
        html = f"<h1>{text}</h1><p>{text}</p><h2>{text}{{#c}}</h2>"
        assert convert._with_own_ids(html) == own_id.sub(r'<\1 id="\3">\2<', html)
