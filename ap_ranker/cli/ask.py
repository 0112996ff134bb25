"""`ap-ranker ask`: questions to a YAML pipeline over the entries of a FAQ file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ap_ranker.cli.stores import find_stores, load_pipeline, one_clear_message, place_of
from ap_ranker.data.faq import DEFAULT_MATCH, Entry, Match, read_faq
from ap_ranker.errors import InputError

if TYPE_CHECKING:
    from haystack import Document, Pipeline

console = Console(soft_wrap=True)


def ask(
    questions: Annotated[list[str], typer.Argument(help="One question, or several.")],
    documents: Annotated[
        Path | None,
        typer.Option(help="The FAQ: a file with columns question and answer; without it, what the store holds."),
    ] = None,
    pipeline: Annotated[Path, typer.Option(help="A Haystack pipeline.")] = Path("pipelines/faq_search.yaml"),
    match: Annotated[Match, typer.Option(help="Which text of an entry is compared with the question.")] = DEFAULT_MATCH,
    top_k: Annotated[
        int | None, typer.Option(help="How many answers to show; by default as the pipeline says.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put questions to a FAQ and show the best answers."""
    if top_k is not None and top_k <= 0:
        raise InputError(f"Expected --top-k above 0, found {top_k}.")
    entries = None if documents is None else read_faq(documents)
    search = FAQSearch.load(pipeline)
    results = []
    with one_clear_message(pipeline, search.place):
        if entries is None:
            search.check_filled()
        else:
            search.index([to_document(entry, match) for entry in entries])
        for question in questions:
            found = search.run(question, top_k)
            results.append({"question": question, "answers": [_answer(document) for document in found]})
    if as_json:
        typer.echo(json.dumps(results[0] if len(results) == 1 else results, ensure_ascii=False, indent=2))
    else:
        for result in results:
            _print(result)


def to_document(entry: Entry, match: Match) -> Document:
    """A document whose content is what is matched, with the whole entry in its meta."""
    from haystack import Document

    return Document(content=entry.text(match), meta={**entry.other, "question": entry.question, "answer": entry.answer})


@dataclass(frozen=True)
class FAQSearch:
    """A YAML pipeline that declares where a query goes in and where documents come out, as Hayhooks reads it, too.

    Attributes:
        path: its file, for messages.
        pipeline: loaded by Haystack.
        query: the "component.socket" targets of the query.
        last: the component whose documents are the result.
    """

    path: Path
    pipeline: Pipeline
    query: list[str]
    last: str

    @classmethod
    def load(cls, path: Path) -> FAQSearch:
        """Read the file.

        Raises:
            InputError: no such file, not a pipeline, one that Haystack refuses, or no such declarations.
        """
        pipeline, declared = load_pipeline(path)
        query = (declared.get("inputs") or {}).get("query")
        documents = (declared.get("outputs") or {}).get("documents")
        if not query or not isinstance(documents, str):
            raise InputError(
                f"{path}: expected 'inputs: query: component.socket' and 'outputs: documents: component.documents', "
                f"found inputs {declared.get('inputs')} and outputs {declared.get('outputs')}."
            )
        return cls(path, pipeline, [query] if isinstance(query, str) else list(query), documents.split(".")[0])

    @property
    def place(self) -> str:
        """Where its documents are, for messages."""
        return ", ".join(dict.fromkeys(map(place_of, self._stores())))

    def index(self, documents: list[Document]) -> None:
        """Write the documents into every store that the pipeline retrieves from; entries that are equal are one."""
        from haystack.document_stores.types import DuplicatePolicy

        for store in self._stores():
            # Equal ids are equal documents, and the stored one may have the mark of `ap-ranker index`.
            store.write_documents(documents, policy=DuplicatePolicy.SKIP)

    def check_filled(self) -> None:
        """An empty store has no answers; an `InputError` says how to fill it."""
        if not any(store.count_documents() for store in self._stores()):
            raise InputError(
                f"{self.path}: expected documents in {self.place}, found none. Give --documents, or write them with "
                "`ap-ranker index` if the store lasts."
            )

    def _stores(self) -> list[Any]:
        stores = find_stores(self.pipeline)
        if not stores:
            raise InputError(f"{self.path}: expected a retriever with a document store, found none.")
        return stores

    def run(self, question: str, top_k: int | None) -> list[Document]:
        """The documents for a question, best first; `None` leaves their number to the pipeline."""
        data: dict[str, dict[str, Any]] = {self.last: {} if top_k is None else {"top_k": top_k}}
        for target in self.query:
            component, socket = target.split(".", 1)
            data.setdefault(component, {})[socket] = question
        documents: list[Document] = self.pipeline.run(data)[self.last]["documents"]
        return documents


def _answer(document: Document) -> dict[str, Any]:
    return {"score": document.score, "question": document.meta.get("question"), "answer": document.meta.get("answer")}


def _print(result: dict[str, Any]) -> None:
    console.print(f"\n[bold]{escape(result['question'])}[/]", highlight=False)
    if not result["answers"]:
        console.print("  No answer found.")
    for place, answer in enumerate(result["answers"], start=1):
        console.print(f"  {place}. {answer['score']:.3f}  [cyan]{escape(answer['question'] or '')}[/]", highlight=False)
        console.print(f"     {escape(answer['answer'])}", highlight=False)
