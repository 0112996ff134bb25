"""Thirty more files that a second fresh reader thought of; their expectations stood before a run."""

from __future__ import annotations

from typing import Any

from file_shapes import (
    BOTH,
    BOTH_WITH_WORDINGS,
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
    lines,
    pair,
    shape_of,
    workbook,
)

FURTHER: list[Shape] = []
ONE: list[Read] = [(PARCEL, IN_APP)]
ONE_WITH_WORDING: list[Read] = [(PARCEL, IN_APP, TRACK)]


def further(*given: Any, **fields: Any) -> None:
    FURTHER.append(shape_of(*given, **fields))


# Help desks
further(
    "Zendesk's sections with articles",
    "f.json",
    {"sections": [{"id": 1, "name": "Parcels", "articles": [{"title": PARCEL, "body": f"<p>{IN_APP}</p>"}]}]},
    ONE,
)
further(
    "Gorgias' articles with translations",
    "f.json",
    {"data": [{"id": 1, "translation": {"locale": "en-US", "title": PARCEL, "content": f"<p>{IN_APP}</p>"}}]},
    ONE,
)
further(
    "Front's articles",
    "f.json",
    {"_results": [{"name": PARCEL, "content": f"<p>{IN_APP}</p>", "status": "published"}], "_pagination": {}},
    ONE,
)
further(
    "Tidio's quick replies",
    "f.json",
    [{"trigger": [PARCEL, TRACK], "reply": IN_APP}],
    ONE_WITH_WORDING,
    columns=("trigger", "reply"),
)
further(
    "Zoho's names",
    "f.csv",
    f"Article Title,Article Content,Category\n{PARCEL},<div>{IN_APP}</div>,Parcels\n",
    ONE,
)
further(
    "a help desk's CSV with HTML and entities",
    "f.csv",
    f'title,body_html\n{PARCEL},"<p>{IN_APP}&nbsp;</p>"\n',
    ONE,
)
further("Crisp's helpdesk", "f.json", {"error": False, "data": [{"title": PARCEL, "content": IN_APP, "order": 1}]}, ONE)
# Chat tools
further(
    "utterances and an answer",
    "f.json",
    {"items": [{"utterances": [PARCEL, TRACK], "answer": IN_APP}]},
    ONE_WITH_WORDING,
)
further(
    "Botpress' questions by language",
    "f.json",
    {
        "qnas": [
            {
                "id": "a",
                "data": {
                    "enabled": True,
                    "questions": {"en": [PARCEL, TRACK]},
                    "answers": {"en": [IN_APP]},
                },
            }
        ]
    },
    ONE_WITH_WORDING,
)
further(
    "a chat of conversations",
    "f.jsonl",
    lines(
        {"conversations": [{"from": "human", "value": PARCEL}, {"from": "gpt", "value": IN_APP}]},
        {"conversations": [{"from": "human", "value": RETURN}, {"from": "gpt", "value": DAYS}]},
    ),
    BOTH,
)
further("input and output", "f.jsonl", lines({"input": PARCEL, "output": IN_APP}), ONE)
further("user and bot", "f.csv", f'user,bot\n{PARCEL},{IN_APP}\n{RETURN},"{DAYS}"\n', BOTH)
further(
    "a ChatterBot corpus",
    "f.yml",
    f'categories:\n- parcels\nconversations:\n- - "{PARCEL}"\n  - "{IN_APP}"\n- - "{RETURN}"\n  - "{DAYS}"\n',
    BOTH,
)
further("query and response", "f.jsonl", lines({"query": PARCEL, "response": IN_APP, "score": 0.5}), ONE)
# Wikis and CMS
further(
    "a list of headings with texts",
    "f.json",
    {"page": {"blocks": [{"heading": PARCEL, "text": f"<p>{IN_APP}</p>"}, {"heading": RETURN, "text": DAYS}]}},
    BOTH,
)
further(
    "Drupal's JSON:API with processed texts",
    "f.json",
    {
        "data": [
            {
                "type": "node--faq",
                "attributes": {"title": PARCEL, "body": {"value": f"<p>{IN_APP}</p>", "processed": f"<p>{IN_APP}</p>"}},
            }
        ]
    },
    ONE,
)
further(
    "Notion's table as CSV",
    "f.csv",
    f'\ufeffQuestion,Answer,Tags,Last edited\n{PARCEL},{IN_APP},"a, b",May 2\n',
    ONE,
)
further("Markdown's table", "f.md", f"| Question | Answer |\n| --- | --- |\n| {PARCEL} | {IN_APP} |\n", ONE)
further(
    "details in Markdown",
    "f.md",
    f"# FAQ\n\n<details>\n<summary>{PARCEL}</summary>\n\n{IN_APP}\n\n</details>\n",
    ONE,
)
further("a definition list", "f.html", f"<h1>FAQ</h1><dl><dt>{PARCEL}</dt><dd>{IN_APP}</dd></dl>", ONE)
further(
    "a table in a page",
    "f.html",
    f"<table><tr><th>Question</th><th>Answer</th></tr><tr><td>{PARCEL}</td><td>{IN_APP}</td></tr></table>",
    ONE,
)
further(
    "Hugo's data by keys",
    "f.yaml",
    f"parcels:\n  title: Parcels\n  items:\n    - q: {PARCEL}\n      a: {IN_APP}\nreturns:\n  items:\n"
    f"    - q: {RETURN}\n      a: {DAYS}\n",
    BOTH,
)
further(
    "YAML with folded answers",
    "f.yaml",
    f"- question: {PARCEL}\n  answer: >\n    You can follow it\n    in the app.\n",
    ONE,
)
# Spreadsheets as people keep them
further(
    "a sheet of each language",
    "f.xlsx",
    workbook({"EN": [["Question", "Answer"], [PARCEL, IN_APP]], "DE": [["Question", "Answer"], [WO, IN_DER_APP]]}),
    TWO_LANGUAGES,
)
further(
    "names with line breaks and marks",
    "f.xlsx",
    workbook({"FAQ": [["Question *", "Answer\n(max. 500)"], [PARCEL, IN_APP]]}),
    ONE,
)
further(
    "an empty first row and column",
    "f.xlsx",
    workbook({"FAQ": [[None, None, None], [None, "Question", "Answer"], [None, PARCEL, IN_APP], [None, RETURN, DAYS]]}),
    BOTH,
)
further(
    "wordings in one cell",
    "f.csv",
    f'question,wordings,answer\n{PARCEL},"{TRACK}",{IN_APP}\n{RETURN},"{SEND}","{DAYS}"\n',
    BOTH_WITH_WORDINGS,
)
further("names in capitals", "f.csv", f"QUESTION;ANSWER;ACTIVE\n{PARCEL};{IN_APP};yes\n", ONE)
further("a line for the separator", "f.csv", f"sep=;\nQuestion;Answer\n{PARCEL};{IN_APP}\n", ONE)
further(
    "a table of shops below",
    "f.xlsx",
    workbook(
        {
            "FAQ": [
                ["Question", "Answer"],
                [PARCEL, IN_APP],
                [RETURN, DAYS],
                [],
                ["Shop", "Street", "Phone"],
                ["North", "A 1", "12"],
                ["South", "B 2", "34"],
            ]
        }
    ),
    BOTH,
)
further("answers before questions", "f.csv", f'answer,question\n{IN_APP},{PARCEL}\n"{DAYS}",{RETURN}\n', BOTH)
further("pairs in arrays", "f.json", [pair(), pair(RETURN, DAYS), None], BOTH)
