"""Files as other people keep them, small and made up: what each holds, and what must be read of it.

Written before the code that reads them. A shape is a file's name, its content, and the entries that a search over it
has: question, answer, further wordings. `left_out` is the number of rows or parts that are named as left out.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field
from typing import Any

PARCEL, TRACK, IN_APP = "Where is my parcel?", "Track my order", "You can follow it in the app."
RETURN, SEND, DAYS = "Can I return it?", "Send something back", "Yes, within 30 days."
WO, IN_DER_APP = "Wo ist mein Paket?", "In der App steht, wo es ist."
ZURUECK, TAGE = "Kann ich es zurückgeben?", "Ja, innerhalb von 30 Tagen."

Read = tuple[str, ...]
"""A question, its answer, and its further wordings."""

BOTH: list[Read] = [(PARCEL, IN_APP), (RETURN, DAYS)]
BOTH_WITH_WORDINGS: list[Read] = [(PARCEL, IN_APP, TRACK), (RETURN, DAYS, SEND)]
TWO_LANGUAGES: list[Read] = [(PARCEL, IN_APP), (WO, IN_DER_APP)]


@dataclass(frozen=True)
class Shape:
    """A file and what must be read of it."""

    name: str
    file: str
    content: bytes
    entries: list[Read]
    left_out: int = 0
    columns: tuple[str, str] | None = None
    other: dict[str, str] = field(default_factory=dict)  # of the first entry


SHAPES: list[Shape] = []


def shape_of(name: str, file: str, content: Any, entries: list[Read], left_out: int = 0, **more: Any) -> Shape:
    """A shape; a content that is no text is written as JSON."""
    if not isinstance(content, str | bytes):
        content = json.dumps(content, ensure_ascii=False)
    written = content if isinstance(content, bytes) else content.encode()
    return Shape(name, file, written, entries, left_out, **more)


def shape(*given: Any, **more: Any) -> None:
    SHAPES.append(shape_of(*given, **more))


def pair(question: Any = PARCEL, answer: Any = IN_APP, **more: Any) -> dict[str, Any]:
    return {"question": question, "answer": answer, **more}


PAIRS = [pair(), pair(RETURN, DAYS)]


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


# 1. A list of questions is several questions

LISTS = [[PARCEL, TRACK], [RETURN, SEND]]
shape(
    "questions as a list",
    "f.json",
    [{"questions": q, "answer": a} for q, a in zip(LISTS, (IN_APP, DAYS), strict=True)],
    BOTH_WITH_WORDINGS,
)
shape(
    "q as a list", "f.json", [{"q": q, "a": a} for q, a in zip(LISTS, (IN_APP, DAYS), strict=True)], BOTH_WITH_WORDINGS
)
shape("question as a list", "f.json", [pair([PARCEL, TRACK])], [(PARCEL, IN_APP, TRACK)])
shape("lists in lines", "f.jsonl", lines(pair([PARCEL, TRACK]), pair([RETURN, SEND], DAYS)), BOTH_WITH_WORDINGS)
shape(
    "some are lists",
    "f.jsonl",
    lines(pair([PARCEL, TRACK]), pair(RETURN, DAYS)),
    [(PARCEL, IN_APP, TRACK), (RETURN, DAYS)],
)
shape(
    "QnA Maker",
    "f.json",
    {
        "qnaDocuments": [
            {
                "id": 1,
                "answer": IN_APP,
                "source": "Editorial",
                "questions": [PARCEL, TRACK],
                "metadata": [{"name": "a", "value": "b"}],
                "context": {"isContextOnly": False, "prompts": []},
            },
            {"id": 2, "answer": DAYS, "source": "Editorial", "questions": [RETURN, SEND], "metadata": []},
        ]
    },
    BOTH_WITH_WORDINGS,
)
shape(
    "intents.json",
    "intents.json",
    {
        "intents": [
            {"tag": "parcel", "patterns": [PARCEL, TRACK], "responses": [IN_APP]},
            {"tag": "return", "patterns": [RETURN, SEND], "responses": [DAYS], "context_set": ""},
        ]
    },
    BOTH_WITH_WORDINGS,
)
shape(
    "several responses: the first is the answer, the others are kept",
    "intents.json",
    {"intents": [{"tag": "parcel", "patterns": [PARCEL], "responses": [IN_APP, "Look into the app!"]}]},
    [(PARCEL, IN_APP)],
    other={"further answers": "Look into the app!"},
)
shape(
    "an answer's list is of paragraphs",
    "f.json",
    [pair(answer=["First open the app.", "Then look."])],
    [(PARCEL, "First open the app.\n\nThen look.")],
)
shape(
    "wordings beside a list",
    "f.json",
    [pair([PARCEL, TRACK], wordings=["Parcel?"])],
    [(PARCEL, IN_APP, "Parcel?", TRACK)],
)
shape(
    "questions in objects",
    "f.json",
    [{"questions": [{"text": PARCEL}, {"text": TRACK}], "answer": {"text": IN_APP}}],
    [(PARCEL, IN_APP, TRACK)],
)
shape(
    "an empty list is no question", "f.json", [pair(), {"question": [], "answer": DAYS}], [(PARCEL, IN_APP), ("", DAYS)]
)
shape(
    "a named column of lists",
    "f.json",
    [{"ask": [PARCEL, TRACK], "say": IN_APP, "id": 1}],
    [(PARCEL, IN_APP, TRACK)],
    columns=("ask", "say"),
)


def parquet(records: list[dict[str, Any]]) -> bytes:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), file)
    return file.getvalue()


shape("lists of Parquet", "f.parquet", parquet([pair([PARCEL, TRACK]), pair([RETURN, SEND], DAYS)]), BOTH_WITH_WORDINGS)
shape("objects of Parquet", "f.parquet", parquet([pair({"text": PARCEL}, {"text": IN_APP})]), [(PARCEL, IN_APP)])

# 2. Objects below question and answer keep their parent

shape(
    "languages below question and answer",
    "f.json",
    [pair({"en": PARCEL, "de": WO}, {"en": IN_APP, "de": IN_DER_APP})],
    TWO_LANGUAGES,
)
shape(
    "languages in another order",
    "f.json",
    [pair({"en": PARCEL, "de": WO}, {"de": IN_DER_APP, "en": IN_APP})],
    [(WO, IN_DER_APP), (PARCEL, IN_APP)],
)
shape(
    "regions", "f.json", [pair({"en-US": PARCEL, "de-DE": WO}, {"en-US": IN_APP, "de-DE": IN_DER_APP})], TWO_LANGUAGES
)
shape(
    "a language without an answer is a wording",
    "f.json",
    [pair({"en": PARCEL, "de": WO}, {"en": IN_APP})],
    [(PARCEL, IN_APP, WO)],
)
shape(
    "languages of the answer alone",
    "f.json",
    [pair(PARCEL, {"en": IN_APP, "de": IN_DER_APP})],
    [(PARCEL, IN_APP), (PARCEL, IN_DER_APP)],
)
shape("languages around", "f.json", {"en": [pair()], "de": [pair(WO, IN_DER_APP)]}, TWO_LANGUAGES)
shape(
    "languages in lines",
    "f.jsonl",
    lines(pair({"en": PARCEL, "de": WO}, {"en": IN_APP, "de": IN_DER_APP})),
    TWO_LANGUAGES,
)
shape("languages with lists", "f.json", [pair({"en": [PARCEL, TRACK]}, {"en": [IN_APP]})], [(PARCEL, IN_APP, TRACK)])
shape(
    "columns with languages",
    "f.csv",
    f'question_en,answer_en,question_de,answer_de\n{PARCEL},{IN_APP},{WO},"{IN_DER_APP}"\n',
    TWO_LANGUAGES,
)
shape(
    "columns with languages in brackets",
    "f.csv",
    f'Question (EN),Answer (EN),Question (DE),Answer (DE)\n{PARCEL},{IN_APP},{WO},"{IN_DER_APP}"\n',
    TWO_LANGUAGES,
)
shape("rendered", "f.json", [pair({"rendered": PARCEL}, {"rendered": f"<p>{IN_APP}</p>"})], [(PARCEL, IN_APP)])
shape(
    "one language named",
    "f.json",
    [pair({"en": PARCEL, "de": WO}, {"en": IN_APP, "de": IN_DER_APP})],
    [(WO, IN_DER_APP)],
    columns=("question.de", "answer.de"),
)
WORDPRESS = [
    {
        "id": 7,
        "link": "https://example.org/a",
        "title": {"rendered": PARCEL},
        "content": {"rendered": f"<p>{IN_APP}</p>", "protected": False},
        "excerpt": {"rendered": ""},
        "status": "publish",
    },
    {
        "id": 8,
        "link": "https://example.org/b",
        "title": {"rendered": RETURN},
        "content": {"rendered": f"<p>{DAYS}</p>", "protected": False},
        "status": "publish",
    },
]
shape("WordPress", "f.json", WORDPRESS, BOTH, other={"url": "https://example.org/a"})

# 3. A reply of an API is a list with things around it

shape("data and meta", "f.json", {"data": PAIRS, "meta": {"total": 2}}, BOTH)
shape(
    "pagination and links",
    "f.json",
    {"items": PAIRS, "pagination": {"page": 1, "per_page": 2}, "links": {"next": None, "self": "/faq"}},
    BOTH,
)
shape(
    "Strapi",
    "f.json",
    {
        "data": [{"id": i, "attributes": p | {"createdAt": "2024"}} for i, p in enumerate(PAIRS)],
        "meta": {"pagination": {"page": 1}},
    },
    BOTH,
)
shape(
    "JSON:API with included",
    "f.json",
    {
        "data": [{"type": "faq", "id": 1, "attributes": pair()}],
        "included": [{"type": "author", "id": 1, "attributes": {"name": "Ann"}}],
    },
    [(PARCEL, IN_APP)],
)
shape(
    "lists of objects beside", "f.json", [pair(tags=[{"id": 1}, {"id": 2}], author={"name": "Ann"})], [(PARCEL, IN_APP)]
)
shape(
    "the same with named columns",
    "f.json",
    {"data": [{"ask": PARCEL, "say": IN_APP, "tags": [{"id": 1}, {"id": 2}]}], "meta": {"total": 1}},
    [(PARCEL, IN_APP)],
    columns=("ask", "say"),
)
shape(
    "GraphQL",
    "f.json",
    {"data": {"faqs": {"edges": [{"node": p, "cursor": "x"} for p in PAIRS], "pageInfo": {"hasNextPage": False}}}},
    BOTH,
)
shape("categories around", "f.json", {"categories": [{"name": "Parcels", "faqs": PAIRS}], "version": 2}, BOTH)
shape("questions below a question", "f.json", [pair(children=[pair(RETURN, DAYS)])], BOTH)
shape(
    "Chatwoot",
    "f.json",
    {
        "payload": [
            {
                "id": 1,
                "slug": "parcel",
                "title": PARCEL,
                "content": IN_APP,
                "status": "published",
                "position": 10,
                "account_id": 1,
                "category": {"id": 2, "name": "Parcels", "locale": "en"},
                "author": {"id": 1, "name": "Ann"},
                "associated_articles": [],
            }
        ],
        "meta": {"all_articles_count": 1, "current_page": 1},
    },
    [(PARCEL, IN_APP)],
)
shape(
    "Zendesk with fields left out",
    "f.json",
    {
        "articles": [{"title": PARCEL, "body": f"<p>{IN_APP}</p>"}, {"title": RETURN, "body": f"<p>{DAYS}</p>"}],
        "count": 2,
    },
    BOTH,
)

# 4. Escaped line ends

shape(
    "escaped line ends",
    "f.tsv",
    f"question\tanswer\n{PARCEL}\tOpen the app.\\n\\nLook there.\n",
    [(PARCEL, "Open the app.\n\nLook there.")],
)
shape(
    "escaped tabs and returns",
    "f.csv",
    f"question,answer\n{PARCEL},Open:\\r\\n\\tthe app\n",
    [(PARCEL, "Open:\n\tthe app")],
)
shape(
    "a path is no line end",
    "f.csv",
    f"question,answer\n{PARCEL},Look in C:\\new\\tables\n",
    [(PARCEL, "Look in C:\\new\\tables")],
)
shape(
    "a backslash between words",
    "f.tsv",
    f"question\tanswer\n{PARCEL}\tA cheap\\reasonable one, a nice\\tasty one.\n",
    [(PARCEL, "A cheap\\reasonable one, a nice\\tasty one.")],
)
shape(
    "real line ends beside",
    "f.csv",
    f'question,answer\n{PARCEL},"Type \\n there.\nThen go."\n',
    [(PARCEL, "Type \\n there.\nThen go.")],
)

# 5. Blank and nameless columns

shape("a data frame's index", "f.csv", f',question,answer\n0,{PARCEL},{IN_APP}\n1,{RETURN},"{DAYS}"\n', BOTH)
shape("an empty column between", "f.csv", f"question,,answer\n{PARCEL},,{IN_APP}\n", [(PARCEL, IN_APP)])
shape("a nameless column behind", "f.csv", f"question,answer,\n{PARCEL},{IN_APP},checked\n", [(PARCEL, IN_APP)])
shape("two nameless columns", "f.csv", f",question,,answer\n1,{PARCEL},x,{IN_APP}\n", [(PARCEL, IN_APP)])
shape(
    "nameless, with named columns",
    "f.csv",
    f",ask,,say,more\n1,{PARCEL},,{IN_APP},x\n",
    [(PARCEL, IN_APP)],
    columns=("ask", "say"),
)


def workbook(sheets: dict[str, list[list[Any]]]) -> bytes:
    import openpyxl

    book, file = openpyxl.Workbook(), io.BytesIO()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(file)
    return file.getvalue()


shape(
    "sheets with one blank column each",
    "f.xlsx",
    workbook({f"Part {i}": [["Question", None, "Answer"], [f"{PARCEL[:-1]} {i}?", None, IN_APP]] for i in range(7)}),
    [(f"{PARCEL[:-1]} {i}?", IN_APP) for i in range(7)],
)
shape(
    "a nameless column of notes in a sheet",
    "f.xlsx",
    workbook({"FAQ": [["Question", "Answer"], [PARCEL, IN_APP, "ask Ann"]]}),
    [(PARCEL, IN_APP)],
)

# 6. Unfinished rows

shape(
    "a question without an answer", "f.csv", f"question,answer\n{PARCEL},{IN_APP}\n{RETURN},\n", [(PARCEL, IN_APP)], 1
)
shape("a note below the table", "f.csv", f"question,answer\n{PARCEL},{IN_APP}\n\nAs of March\n", [(PARCEL, IN_APP)], 1)
shape("a row without an answer in JSON", "f.json", [pair(), {"question": RETURN}], [(PARCEL, IN_APP)], 1)
shape("a row without an answer in lines", "f.jsonl", lines(pair(), {"question": RETURN}), [(PARCEL, IN_APP)], 1)
shape("a null answer", "f.json", [pair(), pair(RETURN, None)], [(PARCEL, IN_APP)], 1)
shape("an empty list of answers", "f.json", [pair(), {"question": RETURN, "answer": []}], [(PARCEL, IN_APP)], 1)
shape(
    "a note below a sheet",
    "f.xlsx",
    workbook({"FAQ": [["Question", "Answer"], [PARCEL, IN_APP], [], ["Updated by Ann"]]}),
    [(PARCEL, IN_APP)],
    1,
)

# 7. Systems whose advice ran in a circle

shape(
    "JSON-LD in a file",
    "f.json",
    {
        "@context": "https://schema.org",
        "@type": "FAQPage",
        "mainEntity": [
            {"@type": "Question", "name": PARCEL, "acceptedAnswer": {"@type": "Answer", "text": f"<p>{IN_APP}</p>"}},
            {"@type": "Question", "name": RETURN, "acceptedAnswer": {"@type": "Answer", "text": DAYS}},
        ],
    },
    BOTH,
)
shape(
    "Botpress",
    "f.json",
    {
        "qnas": [
            {
                "id": "a",
                "data": {
                    "action": "text",
                    "contexts": ["global"],
                    "enabled": True,
                    "questions": {"en": [PARCEL, TRACK]},
                    "answers": {"en": [IN_APP]},
                    "redirectFlow": "",
                },
            }
        ]
    },
    [(PARCEL, IN_APP, TRACK)],
)
CHAT = {
    "messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": PARCEL},
        {"role": "assistant", "content": IN_APP},
    ]
}
TURNS = {
    "conversations": [
        {"from": "human", "value": PARCEL},
        {"from": "gpt", "value": IN_APP},
        {"from": "human", "value": RETURN},
        {"from": "gpt", "value": DAYS},
    ]
}
shape("a chat log", "f.jsonl", lines(CHAT), [(PARCEL, IN_APP)])
shape("a chat log of several turns", "f.json", [TURNS], BOTH)
shape(
    "a chat log that ends unanswered",
    "f.json",
    [{"messages": [*CHAT["messages"], {"role": "user", "content": RETURN}]}],
    [(PARCEL, IN_APP)],
    1,
)
YAML_FAQ = f"- question: {PARCEL}\n  answer: {IN_APP}\n- question: {RETURN}\n  answer: |\n    {DAYS}\n"
shape("Jekyll's _data/faq.yml", "faq.yml", YAML_FAQ, BOTH)
shape(
    "YAML within categories",
    "faq.yaml",
    f"title: FAQ\nsections:\n- name: Parcels\n  items:\n  - q: {PARCEL}\n    a: {IN_APP}\n",
    [(PARCEL, IN_APP)],
)
shape("YAML's No is a text", "faq.yml", f"- q: {PARCEL}\n  a: No\n", [(PARCEL, "No")])
shape(
    "Rasa",
    "nlu.yml",
    f'version: "3.1"\nnlu:\n- intent: faq/parcel\n  examples: |\n    - {PARCEL}\n    - {TRACK}\n'
    f'responses:\n  utter_faq/parcel:\n  - text: "{IN_APP}"\n',
    [(PARCEL, IN_APP, TRACK)],
)


def json_ld(block: str) -> str:
    return f'<html><body><p>Read on.</p><script type="application/ld+json">{block}</script></body></html>'


LD = json.dumps(
    {"@type": "FAQPage", "mainEntity": [{"@type": "Question", "name": PARCEL, "acceptedAnswer": {"text": IN_APP}}]}
)
PAGE: list[Read] = [("", "Read on."), (PARCEL, IN_APP)]
shape("JSON-LD in CDATA", "f.html", json_ld(f"//<![CDATA[\n{LD}\n//]]>"), PAGE)
shape("JSON-LD in a comment", "f.html", json_ld(f"<!-- {LD} -->"), PAGE)
shape("JSON-LD with a semicolon", "f.html", json_ld(f"{LD};"), PAGE)
shape("JSON-LD with a trailing comma", "f.html", json_ld(LD.replace("}]}", "},]}")), PAGE)
shape("JSON-LD of a template", "f.html", json_ld('{"@id": {{ page.url | jsonify }}, ' + LD[1:]), PAGE)
shape("damaged JSON-LD", "f.html", json_ld("{]"), [("", "Read on.")], 1)

# 8. Questions as documents have them

shape("numbered headings", "f.md", f"## 1. {PARCEL}\n\n{IN_APP}\n\n## 2.1 {RETURN}\n\n{DAYS}\n", BOTH)
shape("labelled headings", "f.md", f"## Q1: {PARCEL}\n\n{IN_APP}\n\n## Q2. {RETURN}\n\n{DAYS}\n", BOTH)
shape(
    "headings with Question",
    "f.md",
    f"### Question: {PARCEL}\n\nAnswer: {IN_APP}\n\n### Question 2: {RETURN}\n\nAnswer: {DAYS}\n",
    BOTH,
)
shape("bold questions of Markdown", "f.md", f"**{PARCEL}**\n\n{IN_APP}\n\n**{RETURN}**\n\n{DAYS}\n", BOTH)
shape(
    "bold questions above a line",
    "f.html",
    f"<p><b>{PARCEL}</b><br>{IN_APP}</p><p><strong>{RETURN}</strong><br/>{DAYS}</p>",
    BOTH,
)
shape("paragraphs Q and A", "f.md", f"Q: {PARCEL}\n\nA: {IN_APP}\n\nQ. {RETURN}\n\nA. {DAYS}\n", BOTH)
shape("lines Q and A", "f.html", f"<p>Q: {PARCEL}<br>A: {IN_APP}</p><p>Q: {RETURN}<br>A: {DAYS}</p>", BOTH)
shape("a page whose title asks", "f.md", f'---\ntitle: "{PARCEL}"\n---\n\n{IN_APP}\n', [(PARCEL, IN_APP)])
shape(
    "a page whose title asks, in HTML",
    "f.html",
    f"<html><head><title>{PARCEL}</title></head><body><p>{IN_APP}</p></body></html>",
    [(PARCEL, IN_APP)],
)
shape(
    "Docusaurus",
    "f.md",
    f"import Tabs from '@theme/Tabs';\n\n## {PARCEL}\n\n:::tip\n\n{IN_APP}\n\n:::\n\n"
    "<Tabs>\n\n{/* later */}\n\n</Tabs>\n",
    [(PARCEL, IN_APP)],
)
shape(
    "HTML in a table's cells",
    "f.csv",
    f'question,answer\n{PARCEL},"<b>No</b>, see <a href=""https://example.org/x"">the app</a>.<br>Bye"\n',
    [(PARCEL, "No, see [the app](https://example.org/x).\nBye")],
)
shape(
    "a tag that is spoken of is no HTML",
    "f.csv",
    f"question,answer\n{PARCEL},Write <b> for bold and x < y.\n",
    [(PARCEL, "Write <b> for bold and x < y.")],
)


def word(*paragraphs: list[tuple[str, bool]]) -> bytes:
    import docx

    document, file = docx.Document(), io.BytesIO()
    for runs in paragraphs:
        paragraph = document.add_paragraph()
        for text, bold in runs:
            paragraph.add_run(text).bold = bold
    document.save(file)
    return file.getvalue()


shape(
    "bold questions of Word",
    "f.docx",
    word([(PARCEL, True)], [(IN_APP, False)], [(RETURN, True)], [(DAYS, False)]),
    BOTH,
)
shape(
    "paragraphs Q and A of Word",
    "f.docx",
    word([(f"Q: {PARCEL}", False)], [(f"A: {IN_APP}", False)]),
    [(PARCEL, IN_APP)],
)
