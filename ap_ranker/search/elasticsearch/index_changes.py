"""What a run of `ap-ranker index` has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from ap_ranker.ranking.verdict import WRONG_COSTS, Verdict
from ap_ranker.training.recommendation import CERTAIN


@dataclass(frozen=True)
class IndexComparison:
    """
    How the search in a new index compares with the one before, by a `verdict`.

    Without a verdict, `reason` says why there is none, and the numbers are those of the new search alone.
    """

    n_questions: int
    mrr: float
    utility: float
    verdict: Verdict | None = None
    reason: str = ""

    @property
    def is_worse(self) -> bool:
        """Whether the search before is better, with the certainty with which a training has to be better."""
        return self.verdict is not None and self.verdict.certainty < 1 - CERTAIN

    def explained(self) -> str:
        """The numbers, and what they are compared with."""
        if self.verdict is not None:
            return f"Compared with the search in {self.verdict.before}, {self.verdict.comparison}."
        if not self.n_questions:
            return "Not tested: no question is new to the checkpoint."
        return (
            f"On {self.n_questions:,} questions that the checkpoint has not learnt from: MRR {self.mrr:.3f}, right "
            f"answers asserted minus {WRONG_COSTS:g} times wrong ones {self.utility:+.2f} a question. "
            f"Not compared: {self.reason}."
        )


@dataclass(frozen=True)
class IndexChanges:
    """The changes of a run, in numbers of entries, and in words where the store keeps them.

    Changed are those that replaced an older version, or that another checkpoint had embedded; removed, those that the
    file no longer has; duplicates are left out because they equal another one. `comparison` is with the search before,
    where a new index was tested; a worse one is not searched.
    """

    added: int
    changed: int
    removed: int
    unchanged: int
    duplicates: int = 0
    place: str = ""
    comparison: IndexComparison | None = None

    @classmethod
    def count(
        cls, *, new: Collection[str], written_again: int, deleted: Collection[str], unchanged: int
    ) -> IndexChanges:
        """The changes of a run that wrote and deleted documents.

        `new` and `deleted` are the identities of their entries, of which several documents may have the same one, as
        passages of one section: where a document of an entry was written and another one deleted, it was replaced.
        """
        replaced = (Counter(new) & Counter(deleted)).total()
        return cls(
            added=len(new) - replaced,
            changed=replaced + written_again,
            removed=len(deleted) - replaced,
            unchanged=unchanged,
        )

    @property
    def total(self) -> int:
        """Number of entries in the store after the run."""
        return self.added + self.changed + self.unchanged
