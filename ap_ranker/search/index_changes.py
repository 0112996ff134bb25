"""What a run of `ap-ranker index` has changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class IndexChanges:
    """The changes of a run, in numbers of entries, and in words where the store keeps them.

    Changed are those that replaced an older version, or that another checkpoint had embedded; removed, those that the
    file no longer has; duplicates are left out because they equal another one.
    """

    added: int
    changed: int
    removed: int
    unchanged: int
    duplicates: int = 0
    place: str = ""

    @property
    def total(self) -> int:
        """Number of entries in the store after the run."""
        return self.added + self.changed + self.unchanged
