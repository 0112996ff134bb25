"""The language of a text is told rightly or not at all."""

from __future__ import annotations

import csv
import random
from collections import Counter

import pytest
from conftest import ROOT

from ap_ranker.data.faq import read_faq
from ap_ranker.text.language_detection import LANGUAGES, detect_language, main_language

FOLDER = ROOT / "examples" / "languages"
FAQS = sorted(FOLDER.glob("faqs/*/answers.csv"))
CODES = {name: code for code, name in LANGUAGES.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Where is my parcel and how do I return it?", "en"),
        ("Wo ist mein Paket und wie kann ich es zurückgeben?", "de"),
        ("Où est mon colis et comment puis-je le renvoyer dans les délais ?", "fr"),
        ("¿Cómo puedo devolver el paquete y qué debo hacer para mi reembolso?", "es"),
        ("Dove è il mio pacco e come posso restituirlo? Non sono a casa.", "it"),
        ("Onde está o meu pacote e como posso devolver? Não estou em casa, você pode?", "pt"),
        ("Waar is mijn pakket en hoe kan ik het naar je terugsturen?", "nl"),
        ("Где моя посылка?", "ru"),
        ("我的包裹在哪里?", "zh"),
        ("荷物はどこですか", "ja"),
    ],
)
def test_a_sentence(text: str, expected: str) -> None:
    assert detect_language(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "?",
            "12 345,00 €",
            "Parcel tracking 2024",
            "asdfgh",
            "kjh asdkjh qwe lkj",
            "zxcv bnm asdf ghjk qwer tyui",
        ),
        *("iPhone 13 Pro Max", "https://www.example.com/faq?id=12", "SELECT * FROM users WHERE id = 3;", "\N{BICYCLE}"),
        *("Bosch Shimano Fjordline Flex", "PDF, DOCX, XLSX", "AB-12-CD", "OK", "\ud800"),
    ],
)
def test_nothing_is_told_of_noise_and_names(text: str) -> None:
    assert detect_language(text) is None


def test_letters_at_random_have_no_language() -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(3, 9))) for _ in range(2000)]
    told = [detect_language(" ".join(draw.sample(words, draw.randint(1, 8)))) for _ in range(500)]
    assert sum(map(bool, told)) <= 5


def test_sentences_of_many_languages() -> None:
    with (FOLDER / "sentences.csv").open(encoding="utf-8", newline="") as rows:
        sentences = [(row["language"], row["text"]) for row in csv.DictReader(rows)]
    told = [(code, detect_language(text)) for code, text in sentences]
    assert [(code, found) for code, found in told if found not in (code, None)] == []
    right = Counter(code for code, found in told if code == found)
    assert set(right) == {code for code, _ in sentences}
    assert right.total() > 0.8 * len(sentences)
    assert {"tr", "pl", "sv", "cs", "da", "no", "ro", "hu", "vi"} <= set(right)


@pytest.mark.parametrize("file", FAQS, ids=lambda file: file.parent.name)
def test_a_faq_whatever_its_order(file: str) -> None:
    texts = [entry.answer for entry in read_faq(ROOT / file)]
    expected = CODES[(ROOT / file).parent.name.title()]
    assert main_language(texts) == main_language(texts[::-1]) == expected
    assert main_language([*texts, "AB-12-CD", "iPhone 13 Pro Max"]) == expected


def test_half_and_half_has_no_main_language() -> None:
    texts = [entry.answer for file in (FAQS[2], FAQS[3]) for entry in read_faq(file)]
    assert main_language(texts) is None
    assert main_language([]) is None
    assert main_language(["12", "AB-12-CD"]) is None
