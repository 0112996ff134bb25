"""What a run of `ap-ranker index` has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ap_ranker.search.index_comparison import IndexComparison


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

    @property
    def total(self) -> int:
        """Number of entries in the store after the run."""
        return self.added + self.changed + self.unchanged
