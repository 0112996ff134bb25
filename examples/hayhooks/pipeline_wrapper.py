"""FAQ search in Hayhooks: a REST route, a chat model with OpenAI's interface, and a tool for agents (MCP)."""

from __future__ import annotations

from typing import Annotated, Any

from hayhooks import BasePipelineWrapper, get_last_user_message
from pydantic import Field, StringConstraints

from ap_ranker import FAQSearch

MODEL = "checkpoints/faq"
DOCUMENTS = "FAQ.csv"  # or a folder of documents; both are relative to where Hayhooks runs
NO_ANSWER = "The FAQ has no answer to this question."

Number = Annotated[int, Field(ge=1, le=100)]
Question = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class PipelineWrapper(BasePipelineWrapper):
    """Answers from a FAQ."""

    def setup(self) -> None:
        """Load the model and the FAQ, so that no question waits for them."""
        # After `ap-ranker calibrate`, precision=0.9 gives no answer unless nine of ten such answers are right.
        self.search = FAQSearch(model=MODEL, documents=DOCUMENTS)
        self.search.warm_up()

    def run_api(self, question: Question, top_k: Number = 3) -> dict[str, list[dict[str, Any]]]:
        """Search the company's FAQ for the answers to a question.

        Args:
            question: The question, in the user's own words.
            top_k: The maximum number of answers.
        """
        found = self.search.run(query=question, top_k=top_k)["documents"]
        return {
            "answers": [
                {"score": document.score, "question": document.meta["question"], "answer": document.meta["answer"]}
                for document in found
            ]
        }

    def run_chat_completion(self, model: str, messages: list[dict[str, Any]], body: dict[str, Any]) -> str:
        """Answer the last message of a chat: the best answer, and the other entries that may help."""
        content = get_last_user_message(messages) or ""
        if isinstance(content, list):  # parts, of which some may be images
            content = " ".join(part.get("text", "") for part in content)
        answers = self.run_api(content)["answers"] if content.strip() else []
        if not answers:
            return NO_ANSWER
        best, *others = answers
        see_also = "".join(f"\n- {entry['question']}" for entry in others if entry["question"])
        return f"{best['answer']}\n\nSee also:{see_also}" if see_also else best["answer"]
