"""A query that writes its numbers instead of reading them (a number without an artifact is rejected)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3repro.errors import GateFailed
from k3repro.report._grammar import Grammar
from k3repro.report._literals import literals
from k3repro.report._queries import parse_query
from k3repro.report._sources import Sources

GRAMMAR = Grammar(frozenset({"MI325X", "K3"}))

WRITTEN = [
    "SELECT seal, 74.0 AS x FROM t ORDER BY seal",
    "SELECT seal, -74 AS x FROM t ORDER BY seal",
    "SELECT seal, CAST('74' AS DOUBLE) AS x FROM t ORDER BY seal",
    "SELECT seal, 70 + 4 AS x FROM t ORDER BY seal",
    "SELECT seal, power(2, 10) AS x FROM t ORDER BY seal",
    "SELECT seal, CASE WHEN y > 1 THEN 74 ELSE y END AS x FROM t ORDER BY seal",
    "SELECT seal, CASE WHEN y > 1 THEN y ELSE 74 END AS x FROM t ORDER BY seal",
    "SELECT seal, coalesce(y, 74) AS x FROM t ORDER BY seal",
    "SELECT seal, ifnull(y, 74) AS x FROM t ORDER BY seal",
    "SELECT seal, greatest(y, 74) AS x FROM t ORDER BY seal",
    "SELECT seal, if(y > 1, 74, y) AS x FROM t ORDER BY seal",
    "SELECT seal, '74 ms' AS x FROM t ORDER BY seal",
    "SELECT seal, 'twice' AS x FROM t ORDER BY seal",
    "SELECT seal, y || ' of 74' AS x FROM t ORDER BY seal",
    "SELECT seal, concat(y, '74') AS x FROM t ORDER BY seal",
    "SELECT seal, format('{} of 74', y) AS x FROM t ORDER BY seal",
    "SELECT seal, replace(y, 'a', '74') AS x FROM t ORDER BY seal",
    "SELECT seal, any_value(74) AS x FROM t GROUP BY seal ORDER BY seal",
    "SELECT seal, max(74) OVER () AS x FROM t ORDER BY seal",
    "SELECT seal, (SELECT 74) AS x FROM t ORDER BY seal",
    "SELECT seal, [74][1] AS x FROM t ORDER BY seal",
    "SELECT seal, {'a': 74}.a AS x FROM t ORDER BY seal",
    "SELECT seal, x FROM t, (VALUES (74)) AS v(x) ORDER BY seal",
    "SELECT seal, x FROM t, unnest([74]) AS v(x) ORDER BY seal",
    "SELECT seal, x FROM t, range(74, 75) AS v(x) ORDER BY seal",
    "SELECT seal, unnest([74]) AS x FROM t ORDER BY seal",
    "WITH v AS (SELECT 74 AS x) SELECT seal, x FROM t, v ORDER BY seal",
    "SELECT seal, x FROM t JOIN (SELECT 74 AS x) ON true ORDER BY seal",
    "SELECT seal, y FROM t UNION ALL SELECT seal, 74 FROM t ORDER BY seal",
    "FROM t SELECT seal, 74 AS x ORDER BY seal",
    "SELECT * REPLACE (74 AS y) FROM t ORDER BY seal",
]

READ = [
    "SELECT seal, y / 1e9 AS x FROM t ORDER BY seal",
    "SELECT seal, count(*) AS x FROM t WHERE y > 74 GROUP BY seal HAVING count(*) > 2 ORDER BY seal LIMIT 5",
    "SELECT seal, row_number() OVER (ORDER BY y) AS x FROM t ORDER BY 1",
    "SELECT seal, count(*) FILTER (y = 74) AS x FROM t GROUP BY ALL ORDER BY seal",
    "SELECT seal, json_extract(y, '$.a[3]') AS x FROM t ORDER BY seal",
    "SELECT seal, quantile_cont(y, 0.99) AS x FROM t GROUP BY seal ORDER BY seal",
    "SELECT seal, regexp_replace(y, '[0-9]+', 'n') AS x FROM t ORDER BY seal",
    "SELECT seal, y[1] AS x, y[2:] AS z FROM t ORDER BY seal",
    "SELECT seal, CASE WHEN y = 74 THEN 'many' END AS x FROM t ORDER BY seal",
    "SELECT seal, 'MI325X' AS x, NULL AS z, true AS q FROM t ORDER BY seal",
    "SELECT seal, (SELECT max(y) FROM t) AS x FROM t WHERE EXISTS (FROM t WHERE y = 74) ORDER BY seal",
]


@pytest.mark.parametrize("sql", WRITTEN)
def test_a_number_that_the_query_writes_is_found(sql: str) -> None:
    assert literals(sql, GRAMMAR)


@pytest.mark.parametrize("sql", READ)
def test_reading_counting_and_converting_pass(sql: str) -> None:
    assert literals(sql, GRAMMAR) == []


@given(
    number=st.integers(2, 10**6).map(str) | st.floats(1.5, 1e6).map(str),
    wrap=st.lists(
        st.sampled_from(
            ["({})", "-({})", "CAST({} AS DOUBLE)", "coalesce(y, {})", "round({})", "abs({})", "({} + 1)"]
        ),
        max_size=4,
    ),
    place=st.sampled_from(
        [
            "SELECT seal, {} AS x FROM t ORDER BY 1",
            "WITH v AS (SELECT {} AS x) SELECT seal, v.x FROM t, v ORDER BY 1",
            "SELECT seal, x FROM t, (VALUES ({})) AS v(x) ORDER BY 1",
            "SELECT seal, CASE WHEN y THEN y WHEN z THEN {} ELSE 0 * y END AS x FROM t ORDER BY 1",
        ]
    ),
)
def test_wrapping_a_number_does_not_hide_it(number: str, wrap: list[str], place: str) -> None:
    expression = number
    for each in wrap:
        expression = each.format(expression)
    if "coalesce(y" in expression and "+ 1" in expression:
        return  # a sum with a column reads it (site/pages/about/limits.md)
    assert literals(place.format(expression), GRAMMAR)


def test_a_build_refuses_such_a_query_before_it_runs() -> None:
    class Never:
        def query(self, sql: str, parameters: object = ()) -> list[dict[str, object]]:
            raise AssertionError("ran")

    sources = Sources(Never(), {"made": parse_query("made", WRITTEN[0])})
    with pytest.raises(GateFailed, match=r"writes '74\.0'"):
        sources.result("made")
