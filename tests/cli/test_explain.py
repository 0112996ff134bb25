"""`ap-ranker explain`, in process: a new interpreter for each test would take minutes."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import write_checkpoint
from hypothesis import given
from hypothesis import strategies as st
from refusals import assert_refusal
from typer.testing import CliRunner, Result

from ap_ranker.cli.main import app
from ap_ranker.evaluation.explanation_page import page
from ap_ranker.ranking.explanation import Explanation, Token, pieces
from ap_ranker.ranking.ranker import Ranker

QUESTION, ANSWER = 'Where\'s <b>my</b> "parcel" & <p>bike?', "Open the\n tracking link; it costs $5 & $6."


class Page(HTMLParser):
    """What a browser makes of it: each section's paragraph, the marked words with their heat, all tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.paragraphs: list[str] = []
        self.marks: list[tuple[str, float]] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self._open.append(tag)
        if tag == "p":
            self.paragraphs.append("")
        if tag == "b":
            self.marks.append(("", float((dict(attrs)["style"] or "").removeprefix("--w:"))))

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "p" in self._open:
            self.paragraphs[-1] += data
        if "b" in self._open:
            text, heat = self.marks[-1]
            self.marks[-1] = (text + data, heat)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("ap-cnn", tmp_path_factory.mktemp("explain") / "ranker")


def run(checkpoint: Path, output: Path, question: str = QUESTION, answer: str = ANSWER) -> Result:
    texts = ["--question", question, "--answer", answer]
    return CliRunner().invoke(app, ["explain", str(checkpoint), *texts, "--output", str(output), "--device", "cpu"])


def test_the_page_shows_both_texts_and_their_weights(checkpoint: Path, tmp_path: Path) -> None:
    result = run(checkpoint, tmp_path / "page.html")
    assert result.exit_code == 0, result.output
    expected = Ranker.from_pretrained(checkpoint, "cpu").explain(QUESTION, ANSWER)
    title = f"ap-cnn, score {expected.score:.3f}"
    assert f"page.html: {title}." in result.output.replace("\n", "")
    found = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert found.paragraphs == [title, QUESTION, ANSWER]
    sides = [[(token.text, token.weight or 0) for token in side] for side in (expected.question, expected.answer)]
    heats = [(text, weight / max(w for _, w in side)) for side in sides for text, weight in side]
    assert [text for text, _ in found.marks] == [text for text, _ in heats]
    assert [heat for _, heat in found.marks] == pytest.approx([heat for _, heat in heats], abs=6e-4)
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def explanation(question: str, answer: str) -> Explanation:
    """One token for each text, from its first character to its last but one."""
    tokens = ([Token(text[:-1], 0, max(len(text) - 1, 0), 1.0)] for text in (question, answer))
    return Explanation(0.5, *tokens)


@given(st.text(), st.text(alphabet="<>&\"'/ script\n"))
def test_a_users_text_is_text(question: str, answer: str) -> None:
    """No tag, attribute or address comes from it, and all of it is shown."""
    plain = Page(page(explanation("question", "answer"), "question", "answer", "m"))
    found = Page(page(explanation(question, answer), question, answer, "m"))
    assert set(found.tags) <= {*plain.tags, "span"}
    assert set(found.attributes) <= {*plain.attributes, "class"}
    assert not {"src", "href", "srcset", "action", "onclick"} & set(found.attributes)
    assert found.paragraphs[1:] == [question, answer]


def test_the_page_needs_nothing_but_itself(checkpoint: Path, tmp_path: Path) -> None:
    run(checkpoint, tmp_path / "page.html", "where?", "see http://example.org")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text
    found = Page(text)
    assert not {"script", "link", "img", "iframe", "a"} & set(found.tags)
    assert "url(" not in text
    assert "@import" not in text


def test_a_side_without_weights_says_so(tmp_path: Path) -> None:
    folder = write_checkpoint("global-local", tmp_path / "ranker")
    run(folder, tmp_path / "page.html")
    found = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    note = "The model has no attention weights for these words."
    assert found.paragraphs[1:] == [QUESTION, note, ANSWER]
    assert {heat for _, heat in found.marks} > {0.0, 1.0}


def test_what_was_cut_is_shown_without_heat(checkpoint: Path, tmp_path: Path) -> None:
    run(checkpoint, tmp_path / "page.html", "where?", "parcel " * 30)
    found = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert found.paragraphs[2] == "parcel " * 30
    assert [text for text, _ in found.marks] == ["where", "?", *["parcel"] * 20]


def test_pieces_of_shared_and_of_no_characters() -> None:
    """The special tokens of an encoder have no place in the text, and the bytes of an emoji have one place."""
    spans = [(0, 0, 0.3), (0, 1, 0.1), (2, 3, 0.2), (2, 3, 0.2), (2, 4, 0.1), (4, 4, 0.1)]
    tokens = [Token("", start, end, weight) for start, end, weight in spans]
    assert list(pieces(tokens)) == [(0, 1, pytest.approx(0.2)), (2, 4, pytest.approx(1.0))]
    assert list(pieces([Token("", 0, 0, 1.0)])) == []
    assert list(pieces([Token("a", 0, 1, None)])) == [(0, 1, 0.0)]


def mistake(facts: str, checkpoint: Path, output: Path) -> None:
    assert_refusal(facts, run(checkpoint, output).exception)
    assert not output.exists()


def test_mistakes(checkpoint: Path, tmp_path: Path) -> None:
    mistake("page.pdf … .html", checkpoint, tmp_path / "page.pdf")
    mistake(f"{tmp_path / 'no'}", tmp_path / "no", tmp_path / "page.html")
    mistake("qa-cnn", write_checkpoint("qa-cnn", tmp_path / "qa"), tmp_path / "page.html")
