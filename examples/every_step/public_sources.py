"""The FAQs of others: where each is from, and how its files become entries and users' questions.

A bot's intents make a FAQ with users' questions: its reply is the answer, the ways to ask that its makers collected are
the questions. What is not about the matter of the FAQ, such as greetings, is left out.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ap_ranker.data.html_cells import shown_text
from ap_ranker.errors import InputError

Pairs = Sequence[tuple[str, str]]
"""(question, answer): the questions of an answer one after the other, the stored one first, if there is one."""

SMALL_TALK = ("bot_", "cc_", "ccw_", "comment_", "features_", "greeting_", "user_", "vocative_")
"""How the intents begin that Cosibot and Robo share with every bot of their makers."""

ENTITY = re.compile(r"\[([^\]]*)\](\{[^}]*\}|\([^)]*\))")
"""A word that Rasa's training data marks, with its meaning."""

LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Source:
    """A FAQ in a public repository.

    `has_questions` says whether its makers collected users' questions; of the others, those in `questions` are asked.
    """

    name: str
    language: str
    repository: str
    commit: str
    licence: str
    read: Callable[[Repository], Pairs]
    has_questions: bool = True


@dataclass(frozen=True)
class Repository:
    """A clone of a public repository, read at one commit."""

    folder: Path
    commit: str

    def text(self, path: str) -> str:
        """A file of the commit; InputError if the clone is not there, or lacks it."""
        command = ["git", "-C", str(self.folder), "show", f"{self.commit}:{path}"]
        shown = subprocess.run(command, capture_output=True, check=False)
        if shown.returncode:
            raise InputError(
                f"{self.folder}: expected a clone with {path} at {self.commit}, found none. Run: git clone "
                f"https://github.com/{'/'.join(self.folder.parts[-2:])} {self.folder}"
            )
        return shown.stdout.decode("utf-8")

    def yaml(self, path: str) -> Any:
        """A YAML file of the commit."""
        return yaml.safe_load(self.text(path))


def covid_questions(repository: Repository) -> Pairs:
    """Users' questions about COVID-19 that experts matched with answers; the stored question of each comes first."""
    rows = json.loads(repository.text("data/CovidFAQ/query_answer_pairs.json"))
    stored_first = sorted(rows, key=lambda row: row["query_type"] != "faq")
    return [(row["question"], row["answer"]) for row in stored_first]


def cosibot(repository: Repository) -> Pairs:
    """A bot about COVID-19."""
    return rasa_pairs(
        markdown_examples(repository.text("bot/data/nlu.md")), custom_replies(repository.yaml("bot/domain.yml"))
    )


def robo(repository: Repository) -> Pairs:
    """The bot of a firm that makes bots, about its platform, prices and channels."""
    folder = "bot/languages/en"
    return rasa_pairs(
        markdown_examples(repository.text(f"{folder}/data/nlu.md")),
        custom_replies(repository.yaml(f"{folder}/domain.yml")),
    )


def dialogue(repository: Repository) -> Pairs:
    """A FAQ of Québec about COVID-19, with ways to ask that a company for telemedicine collected."""
    examples = markdown_examples(repository.text("covidfaq/data/fr/nlu.md"))
    replies = markdown_examples(repository.text("covidfaq/data/fr/responses.md"), head="* ")
    return rasa_pairs(
        {name.removeprefix("ask_faq/"): texts for name, texts in examples.items() if name.startswith("ask_faq/")},
        {name.removeprefix("ask_faq/"): texts[0] for name, texts in replies.items() if texts},
    )


def openstreetmap(repository: Repository) -> Pairs:
    """A bot for mappers of OpenStreetMap."""
    return retrieval_pairs(
        repository.yaml("data/nlu/faq.yml"), repository.yaml("data/responses/responses.yml"), prefix="faq/"
    )


def travel(repository: Repository) -> Pairs:
    """A travel agency's bot."""
    return retrieval_pairs(
        repository.yaml("data/nlu/faq.yml"), repository.yaml("data/nlu/responses/faq_responses.yml"), prefix="faq/"
    )


def staking(repository: Repository) -> Pairs:
    """Frequent questions about staking Ethereum, in Spanish: a page of headings and answers."""
    parts = re.split(r"^## ", repository.text("docs/es/faq.md"), flags=re.MULTILINE)[1:]
    pairs = []
    for part in parts:
        question, _, answer = part.partition("\n")
        pairs.append((question.strip(), plain(answer)))
    return pairs


def rasa_pairs(examples: Mapping[str, Sequence[str]], replies: Mapping[str, str]) -> Pairs:
    """Each intent's questions with the reply to it, without small talk, and without replies to be filled in."""
    pairs = []
    for name, questions in examples.items():
        reply = replies.get(name, "{")
        if "{" not in reply and not name.removeprefix("pt_").startswith(SMALL_TALK):
            pairs += [(question, reply) for question in questions]
    return pairs


def retrieval_pairs(nlu: Any, responses: Any, *, prefix: str) -> Pairs:
    """Each retrieval intent's questions with its first reply, of files of Rasa 2 and later."""
    examples = {}
    for intent in nlu["nlu"]:
        lines = re.split(r"^\s*-\s", intent["examples"], flags=re.MULTILINE)
        texts = [ENTITY.sub(r"\1", line).strip() for line in lines]
        examples[intent["intent"]] = [text for text in texts if text]
    replies = {}
    for name, variants in responses["responses"].items():
        texts = [variant["text"] for variant in variants if "text" in variant]
        if texts:
            replies[name.removeprefix("utter_")] = plain(texts[0])
    wanted = {name: texts for name, texts in examples.items() if name.startswith(prefix)}
    return rasa_pairs(wanted, replies)


def markdown_examples(text: str, *, head: str = "## intent:") -> dict[str, list[str]]:
    """The examples below each head, of files of Rasa 1: training questions below intents, or replies below actions."""
    examples: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if line.startswith(head):
            current = examples.setdefault(line.removeprefix(head).strip(), [])
        elif line.startswith(("## ", "* ")):
            current = []
        elif stripped.startswith("- "):
            current.append(plain(ENTITY.sub(r"\1", stripped.removeprefix("- "))))
    return examples


def custom_replies(domain: Any) -> dict[str, str]:
    """The reply to each intent of a bot that writes them as `custom`, once to be read and once to be spoken."""
    responses = domain.get("responses") or domain["templates"]
    replies = {}
    for name, variants in responses.items():
        parts = (variants or [{}])[0].get("custom", {}).get("answers", [])
        shown = [str(part.get("text", "")) for part in parts if part.get("type") in ("html", "text")]
        if text := plain(" ".join(shown)):
            replies[name.removeprefix("utter_")] = text
    return replies


def plain(text: str) -> str:
    """A text without markup, on one line."""
    without_links = LINK.sub(r"\1", text)
    return " ".join(shown_text(without_links).replace("**", "").split())


SOURCES = [
    Source(
        "covid_questions",
        "english",
        "ML-Recipes/BERT-FAQ",
        "3c184030c1819b462e29f665465ab4968657440e",
        "MIT; the data is of JHU-COVID-QA, Apache-2.0",
        covid_questions,
    ),
    Source(
        "cosibot_de",
        "german",
        "cosibot/cosibot-germany-german",
        "ed8917e0da7ebb1ce2140674cc63bc7f82628408",
        "MIT",
        cosibot,
    ),
    Source(
        "cosibot_pt",
        "portuguese",
        "cosibot/cosibot-portugal-portuguese",
        "a20b001da2e40869431a346ce564d866058775c4",
        "MIT",
        cosibot,
    ),
    Source(
        "robo_en",
        "english",
        "robo-ai/roboai-demo-faq-chatbot",
        "4b3550732fe305c5c1ff3a759c925d26ffc86076",
        "MIT",
        robo,
    ),
    Source(
        "dialogue_fr",
        "french",
        "dialoguemd-archives/covidfaq",
        "a493ed72e07b83cdf736684ce1cc9ee47b9bfb3f",
        "MIT",
        dialogue,
    ),
    Source(
        "openstreetmap",
        "english",
        "KathmanduLivingLabs/OSM-chatbot",
        "6afd5fa4f2f9a439b9dc7bb994b7349334cc3fda",
        "MIT",
        openstreetmap,
    ),
    Source(
        "travel",
        "english",
        "jeunesseAfricaine/travel-assistant-rasa",
        "54906854baa1a189b7ce80b8e5889bb4e751acd3",
        "MIT",
        travel,
    ),
    Source(
        "staking_es",
        "spanish",
        "eth-educators/ethstaker-knowledgebase",
        "bc043c232bd91a67027767f5da6f4c4687af9f01",
        "MIT",
        staking,
        has_questions=False,
    ),
]
