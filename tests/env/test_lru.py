"""The cache of what was used last."""

from holdfast.env.lru import LruCache


def test_the_least_recently_used_go_first() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert list(cache) == ["a", "c"]
    assert cache.values() == [1, 3]
    assert cache.get("b") is None
    assert cache.get("b", -1) == -1
    assert ("a" in cache, "b" in cache, len(cache)) == (True, False, 2)


def test_sizes_are_summed_and_given_back() -> None:
    cache: LruCache[str, bytes] = LruCache(10, len)
    cache.put("a", b"1234")
    cache.put("b", b"123456")
    assert cache.size == 10
    cache.put("a", b"12")  # in place of the other; the last used now
    assert cache.size == 8
    cache.put("c", b"123")
    assert (list(cache), cache.size) == (["a", "c"], 5)
    assert cache.pop("a") == b"12"
    assert cache.pop("a") is None
    assert cache.size == 3
    cache.clear()
    assert (len(cache), cache.size) == (0, 0)


def test_a_value_above_the_limit_drives_nothing_out() -> None:
    cache: LruCache[str, bytes] = LruCache(4, len)
    cache.put("a", b"123")
    cache.put("b", b"12345")
    assert list(cache) == ["a"]
    cache.put("a", b"12345")  # what the key had is outdated all the same
    assert (list(cache), cache.size) == ([], 0)


def test_a_limit_of_zero_keeps_nothing() -> None:
    cache: LruCache[str, bytes] = LruCache(0, len)
    cache.put("a", b"1")
    assert cache.get("a") is None
