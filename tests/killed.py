"""A program that kills itself in the middle of its work with a document store in a folder.

Its arguments: the folder; what is interrupted (`write`, `arrays` or `rename`); the number of the call that is the last.
"""

from __future__ import annotations

_PROGRAM = """
import os, signal, sys
from haystack import Document
from haystack_integrations.document_stores.ap_ranker import BM25SDocumentStore, folder_documents

calls = 0
def killing(function):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return call

owner, name = {{"write": (folder_documents.FolderDocuments, "{method}"), "arrays": (folder_documents.np, "save"),
               "rename": (folder_documents.Path, "rename")}}[sys.argv[2]]
setattr(owner, name, killing(getattr(owner, name)))
store = BM25SDocumentStore(sys.argv[1])
"""


def killed_while(method: str, work: str) -> str:
    """The program whose `write` is this method of `FolderDocuments`, and whose work with `store` is this code."""
    return _PROGRAM.format(method=method) + work
