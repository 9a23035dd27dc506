"""One lane's pool of KV blocks, with the prefix cache that keeps freed blocks findable by their hash."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

__all__ = ["Pool"]


class Pool:
    """Counts blocks; block 0, the null block, is not among the `usable` ones.

    A hashed block that nobody holds stays findable until the block is needed, oldest first.
    """

    __slots__ = ("_free", "_held", "_idle", "evictions", "usable")

    def __init__(self, usable: int) -> None:
        self.usable = usable
        self.evictions = 0
        self._free = usable
        self._held: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that can be given out now."""
        return self._free + len(self._idle)

    @property
    def used(self) -> int:
        """Blocks that somebody holds."""
        return self.usable - self.free

    def take(self, count: int) -> bool:
        """Give out `count` blocks; False, and nothing changes, when they are not there."""
        if count > self._free + len(self._idle):
            return False
        while count > self._free:
            self._idle.popitem(last=False)
            self.evictions += 1
            self._free += 1
        self._free -= count
        return True

    def give(self, count: int) -> None:
        """Take back `count` blocks that carry no hash."""
        self._free += count

    def match(self, hashes: Sequence[int]) -> int:
        """How many of the first `hashes` are cached."""
        for count, key in enumerate(hashes):
            if key not in self._held and key not in self._idle:
                return count
        return len(hashes)

    def has(self, keys: Sequence[int]) -> bool:
        """Whether all of these are cached."""
        return all(key in self._held or key in self._idle for key in keys)

    def remember(self, keys: Sequence[int]) -> None:
        """Cache blocks that nobody holds from now on, the last of them longest; one with no room is lost."""
        for key in keys:
            if key in self._idle:
                self._idle.move_to_end(key)
            elif key not in self._held and self.take(1):
                self._idle[key] = None

    def hold(self, hashes: Sequence[int]) -> None:
        """Hold cached blocks for one more request."""
        for key in hashes:
            self._idle.pop(key, None)
            self._held[key] = self._held.get(key, 0) + 1

    def publish(self, hashes: Sequence[int]) -> list[int]:
        """Name blocks that the caller holds; returns those that were named now (others exist already)."""
        fresh = [key for key in hashes if key not in self._held and key not in self._idle]
        for key in fresh:
            self._held[key] = 1
        return fresh

    def drop(self, hashes: Sequence[int]) -> None:
        """Let go of held blocks: the last of a prefix becomes evictable first."""
        for key in reversed(hashes):
            left = self._held[key] - 1
            if left:
                self._held[key] = left
            else:
                del self._held[key]
                self._idle[key] = None
