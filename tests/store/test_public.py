"""The public names: sorted, importable, and each one documented."""

from __future__ import annotations

import k3repro.store as store_package


def test_all_is_sorted_importable_and_documented() -> None:
    names = store_package.__all__
    assert sorted(names) == sorted(set(names))
    for name in names:
        value = getattr(store_package, name)
        assert not callable(value) or value.__doc__, name
