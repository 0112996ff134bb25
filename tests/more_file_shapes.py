"""Thirty more files, thought of by a fresh reader once the others were read; their expectations stood before a run."""

from __future__ import annotations

from typing import Any

from file_shapes import (
    BOTH,
    DAYS,
    IN_APP,
    IN_DER_APP,
    PARCEL,
    RETURN,
    SEND,
    TRACK,
    TWO_LANGUAGES,
    WO,
    Read,
    Shape,
    json_ld,
    lines,
    pair,
    shape_of,
    word,
    workbook,
)

MORE: list[Shape] = []
ONE: list[Read] = [(PARCEL, IN_APP)]
ONE_WITH_WORDING: list[Read] = [(PARCEL, IN_APP, TRACK)]


def more(*given: Any, **fields: Any) -> None:
    MORE.append(shape_of(*given, **fields))


# Help desks
more(
    "Freshdesk's folders, with HTML",
    "f.json",
    [{"id": 1, "title": PARCEL, "description": f"<p>{IN_APP}</p>", "folder_id": 3, "status": 2}],
    ONE,
)
more("articles whose body is called html", "f.json", {"results": [{"title": PARCEL, "html": f"<p>{IN_APP}</p>"}]}, ONE)
more(
    "macros of a help desk",
    "f.json",
    {"faqs": [{"title": PARCEL, "answer": IN_APP, "tags": ["a"]}], "next_page": None},
    ONE,
)
more(
    "a list of answers, each an object",
    "f.json",
    [{"question": PARCEL, "answers": [{"answer": IN_APP, "votes": 3}]}],
    ONE,
)
more(
    "an accepted answer", "f.json", {"items": [{"title": PARCEL, "accepted_answer": {"body": f"<p>{IN_APP}</p>"}}]}, ONE
)
# Chat tools
more(
    "Dialogflow's intent",
    "f.json",
    {
        "intents": [
            {
                "displayName": "parcel",
                "trainingPhrases": [
                    {"type": "EXAMPLE", "parts": [{"text": PARCEL}]},
                    {"type": "EXAMPLE", "parts": [{"text": TRACK}]},
                ],
                "messages": [{"text": {"text": [IN_APP]}}],
            }
        ]
    },
    ONE_WITH_WORDING,
)
more(
    "Lex: utterances and a response",
    "f.json",
    [{"name": "Parcel", "utterances": [PARCEL, TRACK], "response": IN_APP}],
    ONE_WITH_WORDING,
)
more(
    "Rasa's rules",
    "nlu.yml",
    f"nlu:\n- intent: parcel\n  examples: |\n    - {PARCEL}\n    - Where is [it](thing)?\n"
    "rules:\n- rule: a\n  steps:\n  - intent: parcel\n  - action: utter_where\n"
    f"responses:\n  utter_where:\n  - text: {IN_APP}\n",
    [(PARCEL, IN_APP, "Where is it?")],
)
more(
    "prompts and completions",
    "f.jsonl",
    lines({"prompt": PARCEL, "completion": IN_APP}, {"prompt": RETURN, "completion": DAYS}),
    BOTH,
)
more(
    "a chat with parts",
    "f.json",
    {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": PARCEL}]},
            {"role": "assistant", "content": IN_APP},
        ]
    },
    ONE,
)
more("an instruction and its output", "f.json", [{"instruction": PARCEL, "input": "", "output": IN_APP}], ONE)
more(
    "SQuAD",
    "f.json",
    {
        "data": [
            {
                "title": "Parcels",
                "paragraphs": [
                    {
                        "context": IN_APP,
                        "qas": [{"id": "1", "question": PARCEL, "answers": [{"text": IN_APP, "answer_start": 0}]}],
                    }
                ],
            }
        ]
    },
    ONE,
)
# Wikis and CMS
more(
    "Contentful",
    "f.json",
    {
        "items": [
            {
                "sys": {"id": "a"},
                "fields": {
                    "question": {"en-US": PARCEL, "de-DE": WO},
                    "answer": {"en-US": IN_APP, "de-DE": IN_DER_APP},
                },
            }
        ],
        "includes": {},
    },
    TWO_LANGUAGES,
)
more(
    "a rich text",
    "f.json",
    [
        pair(
            answer={
                "nodeType": "document",
                "content": [{"nodeType": "paragraph", "content": [{"nodeType": "text", "value": IN_APP, "marks": []}]}],
            }
        )
    ],
    ONE,
)
more(
    "Sanity's blocks",
    "f.json",
    [pair(answer=[{"_type": "block", "children": [{"_type": "span", "text": IN_APP}]}])],
    ONE,
)
more(
    "Editor.js",
    "f.json",
    [
        pair(
            answer={
                "time": 1,
                "blocks": [
                    {"type": "paragraph", "data": {"text": IN_APP}},
                    {"type": "paragraph", "data": {"text": DAYS}},
                ],
            }
        )
    ],
    [(PARCEL, f"{IN_APP}\n{DAYS}")],
)
more(
    "translations in a list",
    "f.json",
    {
        "data": [
            {
                "id": 1,
                "translations": [{"languages_code": "en", **pair()}, {"languages_code": "de", **pair(WO, IN_DER_APP)}],
            }
        ]
    },
    TWO_LANGUAGES,
)
more(
    "Hugo's TOML-like data in YAML",
    "faq.yml",
    f"faq:\n  enable: true\n  faqItem:\n  - title: {PARCEL}\n    content: "
    f"{IN_APP}\n  - title: {RETURN}\n    content: {DAYS}\n",
    BOTH,
)
more(
    "a FAQ of accordions",
    "f.html",
    f'<div class="accordion"><button aria-expanded="false">{PARCEL}</button><div>{IN_APP}</div></div>',
    [("", f"{PARCEL}\n\n{IN_APP}")],
)
more("a wiki's numbered list", "f.md", f"1. **{PARCEL}**\n\n   {IN_APP}\n\n2. **{RETURN}**\n\n   {DAYS}\n", BOTH)
more("MkDocs' admonition", "f.md", f'## {PARCEL}\n\n!!! note "Mind"\n\n{IN_APP}\n', [(PARCEL, f"Mind\n\n{IN_APP}")])
more("an MDX file", "f.mdx", f"import X from './x';\n\n# {PARCEL}\n\n{IN_APP}\n", ONE)
more("plain text with Q and A", "f.txt", f"Q: {PARCEL}\nA: {IN_APP}\n\nQ: {RETURN}\nA: {DAYS}\n", BOTH)
more(
    "Word with bold and a line break",
    "f.docx",
    word([(f"1. {PARCEL}", True), (f"\n{IN_APP}", False)], [(f"2. {RETURN}", True), (f"\n{DAYS}", False)]),
    BOTH,
)
more(
    "JSON-LD within a graph, in two damaged blocks",
    "f.html",
    json_ld(
        '{"@graph": [{"@type": "Question", "name": "' + PARCEL + '", "acceptedAnswer": {"text": "' + IN_APP + '"},},]};'
    ),
    [("", "Read on."), (PARCEL, IN_APP)],
)
# Spreadsheets as people keep them
more(
    "categories between the rows",
    "f.xlsx",
    workbook({"FAQ": [["Question", "Answer"], ["Parcels", None], [PARCEL, IN_APP], ["Returns", None], [RETURN, DAYS]]}),
    BOTH,
    2,
)
more(
    "an index, a status and a note",
    "f.xlsx",
    workbook(
        {
            "FAQ": [
                [None, "Question", "Answer", "Status", None],
                [1, PARCEL, IN_APP, "ok", "seen by Ann"],
                [2, RETURN, DAYS, None, None],
            ]
        }
    ),
    BOTH,
)
more("numbered questions in a column", "f.csv", f"Nr.;Question;Answer\n1;{PARCEL};{IN_APP}\n2;{RETURN};{DAYS}\n", BOTH)
more(
    "answers with lists in HTML",
    "f.csv",
    f"question,answer\n{PARCEL},<ul><li>One &amp; two</li><li>Three</li></ul>\n",
    [(PARCEL, "- One & two\n- Three")],
)
more(
    "columns of alternative questions",
    "f.csv",
    f'Question,Question 2,Answer\n{PARCEL},{TRACK},{IN_APP}\n{RETURN},{SEND},"{DAYS}"\n',
    [(PARCEL, IN_APP, TRACK), (RETURN, DAYS, SEND)],
)
more(
    "languages by their names",
    "f.csv",
    f'Question English,Answer English,Question German,Answer German\n{PARCEL},{IN_APP},{WO},"{IN_DER_APP}"\n',
    TWO_LANGUAGES,
)
more("a total below", "f.csv", f'question,answer,views\n{PARCEL},{IN_APP},3\n{RETURN},"{DAYS}",4\nTotal,,7\n', BOTH, 1)
more(
    "an object of questions and objects",
    "f.json",
    {"faq": {"parcel": pair(), "return": pair(RETURN, DAYS)}, "version": 1},
    BOTH,
)
