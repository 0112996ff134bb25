"""Questions and answers of programs that chat: logs of messages, and the training data of Rasa."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ap_ranker.data.json_values import texts_of

_ROLES = ("role", "from", "sender", "speaker", "author")
_TEXTS = ("content", "value", "text", "message", "body")
_ASKING = ("user", "human", "customer", "visitor", "client", "prompter", "end-user", "contact")
_ANSWERING = ("assistant", "gpt", "bot", "agent", "model", "chatgpt", "support", "operator", "admin")


def is_chat(values: list[Any]) -> bool:
    """Whether a list is of messages, each with who wrote it, and somebody who asks among them."""
    has_question = False
    for value in values:
        message = _message(value)
        if message is None:
            return False
        role, _ = message
        has_question = has_question or role in _ASKING
    return has_question


def _message(value: Any) -> tuple[str, str] | None:
    """Who wrote a message, and its text; `None` if it is none."""
    if not isinstance(value, dict):
        return None
    roles = [value[name] for name in _ROLES if isinstance(value.get(name), str)]
    contents = [value[name] for name in _TEXTS if name in value]
    if not roles or not contents:
        return None
    text = texts_of(contents[0])
    if isinstance(text, dict) or text is None:
        return None
    if isinstance(text, list):
        text = "\n".join(map(str, text))
    return roles[0].casefold(), str(text).strip()


def turns(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """What was asked and what was answered to it, in order; a question that nobody answered has no answer."""
    questions: list[str] = []
    answers: list[str] = []
    for role, text in filter(None, map(_message, messages)):
        if role in _ASKING and answers:
            yield {"question": "\n".join(questions), "answer": "\n\n".join(answers)}
            questions = []
            answers = []
        if role in _ASKING:
            questions.append(text)
        elif role in _ANSWERING and questions:  # a greeting before the first question answers nothing
            answers.append(text)
    if questions:
        yield {"question": "\n".join(questions), "answer": "\n\n".join(answers)}


def is_corpus(value: dict[str, Any]) -> bool:
    """Whether an object holds conversations as lists of texts, as the corpus of ChatterBot does."""
    spoken = value.get("conversations")
    return isinstance(spoken, list) and bool(spoken) and all(map(_is_exchange, spoken))


def _is_exchange(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def corpus_pairs(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each text of a conversation with the one that answers it; one that nobody answered has no answer."""
    for texts in value["conversations"]:
        for place in range(0, len(texts), 2):
            yield {"question": texts[place], "answer": "".join(texts[place + 1 : place + 2])}


def is_rasa(value: dict[str, Any]) -> bool:
    """Whether an object is the training data of Rasa, with the responses beside the intents."""
    return isinstance(value.get("nlu"), list) and isinstance(value.get("responses"), dict)


_ANNOTATION = re.compile(r"\[([^\[\]\n]*)\](?:\([^()\n]*\)|\{[^{}\n]*\})")
"""What an example's word is marked with: `[Berlin](city)`."""


def rasa_intents(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Each intent with its examples and its response, which is called as the intent, or answers it by a rule."""
    actions = _actions(value)
    responses = value["responses"]
    for intent in value["nlu"]:
        if not isinstance(intent, dict) or "intent" not in intent:
            continue
        name = str(intent["intent"])
        questions = []
        for line in str(intent.get("examples") or "").splitlines():
            example = line.strip().removeprefix("-").strip()
            question = _ANNOTATION.sub(r"\1", example)
            if question:
                questions.append(question)
        response = responses.get(f"utter_{name}") or responses.get(actions.get(name, "")) or []
        texts = []
        for variant in response:
            if isinstance(variant, dict) and variant.get("text"):
                texts.append(variant["text"])
        yield {"intent": name, "question": questions, "responses": texts}


def _actions(value: dict[str, Any]) -> dict[str, str]:
    """Intent -> the response that a rule or a story gives next."""
    actions: dict[str, str] = {}
    for name in ("rules", "stories"):
        for rule in value.get(name) or []:
            steps = rule.get("steps") if isinstance(rule, dict) else None
            if not isinstance(steps, list):
                continue
            intent = ""
            for step in steps:
                if isinstance(step, dict) and isinstance(step.get("intent"), str):
                    intent = step["intent"]
                elif intent and isinstance(step, dict) and isinstance(step.get("action"), str):
                    actions.setdefault(intent, step["action"])
                    intent = ""
    return actions
