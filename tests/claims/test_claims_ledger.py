"""Ledgers: what is read, and every way a ledger can be wrong is named, with its rule code and exit code 2."""

import pytest
from claims_ledgers import HEAD, ledger_text
from hypothesis import given
from hypothesis import strategies as st

from k3repro.claims import LedgerError, audit_ledger, read_ledger, read_ledger_text
from k3repro.errors import K3Error

SUM = (
    'id = "a", printed = "84.2", unit = "GiB"',
    'id = "b", printed = "53.3", unit = "GiB"',
)


def failure(text: str) -> LedgerError:
    with pytest.raises(LedgerError) as caught:
        read_ledger_text(text)
    assert caught.value.exit_code == 2
    assert caught.value.code in str(caught.value)
    return caught.value


def test_a_ledger_a_person_wrote():
    ledger = read_ledger_text(
        ledger_text(*SUM, 'id = "c", printed = "137.5", unit = "GiB", from = ["a + b"]')
    )
    assert list(ledger.claims) == ["a", "b", "c"]
    assert ledger.claims["c"].place == "top#3"
    assert ledger.claims["c"].relations[0].formula.names == ("a", "b")


def test_mentions_inherit_unit_and_kind():
    ledger = read_ledger_text(
        ledger_text('id = "a", printed = "8", unit = "GPU", kind = "count"', 'same = "a", printed = "eight"')
    )
    mention = ledger.claims["a@top#2"]
    assert mention.unit.name == "GPU" and mention.kind == "count" and mention.value == 8


@pytest.mark.parametrize(
    ("claim", "code", "says"),
    [
        ('id = "c", printed = "1", from = ["nobody"]', "K3C501", "nobody"),
        ('same = "nobody", printed = "1"', "K3C501", "nobody"),
        ('id = "c", printed = "1", skip = "unknown"', "K3C501", "unknown"),
        ('id = "c", printed = "1", statistic = "p99", observations = "nobody"', "K3C501", "nobody"),
        ('id = "c", printed = "1", unit = "s", from = ["a + b"]', "K3C503", "second"),
        ('id = "c", printed = "1", unit = "GiB", from = ["a * b"]', "K3C503", "byte"),
        ('id = "c", printed = "1", unit = "GiB/GPU", from = ["a"]', "K3C503", "GPU"),
        ('id = "c", printed = "137.5", unit = "GiB", from = ["a * b / (b - b)"]', "K3C506", "any value"),
        ('id = "c", printed = "x"', "K3C507", "not one numeral"),
        ('id = "c", printed = "1", unit = "parsec"', "K3C507", "parsec"),
        ('id = "c", printed = "1", kind = "guess"', "K3C507", "guess"),
        ('id = "c", printed = "1", hedge = "perhaps"', "K3C507", "perhaps"),
        ('id = "c", printed = "1", form = "a"', "K3C507", "form"),
        ('id = "4c", printed = "1"', "K3C507", "4c"),
        ('id = "needle.pass", printed = "1"', "K3C507", "keyword"),
        ('id = "a", printed = "1"', "K3C507", "repeats"),
        ('printed = "1"', "K3C507", "needs an id"),
        ('id = "c", printed = "1", from = ["os.system()"]', "K3C507", "formula"),
        ('id = "c", printed = "1", from = [{ is = "a", rule = "K3C999" }]', "K3C507", "K3C999"),
        ('id = "c", printed = "-3%", unit = "%", hedge = "within"', "K3C507", "negative"),
        ('id = "c", printed = "1", artifact = { query = "SELECT 1", tolerance = 0.1 }', "K3C507", "tolerance_from"),  # noqa: E501
        ('id = "c", printed = "1", artifact = { query = "SELECT 1", scale = nan }', "K3C507", "numbers"),
        ('id = "c", printed = "1", artifact = { query = "SELECT 1", relation = "held-out" }', "K3C507", "relation"),  # noqa: E501
    ],
)  # fmt: skip
def test_bad_claims_are_named(claim, code, says):
    error = failure(ledger_text(*SUM, claim))
    assert error.code == code
    assert says in str(error)


def test_a_circle_is_named_with_its_path():
    error = failure(
        ledger_text(
            'id = "a", printed = "1", from = ["b"]',
            'id = "b", printed = "1", from = ["c"]',
            'id = "c", printed = "1", from = ["a"]',
        )
    )
    assert error.code == "K3C502" and "a <- b <- c <- a" in str(error)


def test_a_claim_that_follows_from_itself_is_a_circle():
    assert failure(ledger_text('id = "a", printed = "5", from = ["a"]')).code == "K3C502"


def test_a_rule_that_explains_nothing_can_no_longer_fail():
    extra = '[[rule]]\nid = "date"\nreason = "dates"\ncount = 0\n'
    assert failure(ledger_text(*SUM, extra=extra)).code == "K3C506"


def test_a_rule_counts_what_it_explains():
    extra = '[[rule]]\nid = "date"\nreason = "dates"\ncount = 2\n'
    error = failure(ledger_text(*SUM, 'printed = "2026", skip = "date"', extra=extra))
    assert "count = 2" in str(error)


def test_a_numeral_is_claimed_once():
    text = ledger_text(*SUM) + '\n[[section]]\nat = "top"\nclaims = [{ n = 1, id = "z", printed = "84.2" }]\n'
    assert "covered twice" in str(failure(text))


def test_words_amount_to_numbers_and_need_no_numeral():
    text = ledger_text('id = "a", printed = "5", unit = "s"', 'id = "b", printed = "7", unit = "s"')
    word = (
        'n = 0, id = "o", printed = "slower", amount = "0", unit = "s", kind = "ordering", from = ["< b - a"]'
    )
    ledger = read_ledger_text(text.replace("\n]", f"\n  {{ {word} }},\n]"))
    assert ledger.claims["o"].place == "top#0/o" and len(ledger.tokens) == 2
    assert [v.verdict for v in audit_ledger(ledger)][-1] == "supported"


def test_tables_expand_to_cells_and_row_checks():
    ledger = read_ledger_text(
        HEAD
        + """
[[table]]
id = "t3"
at = "results/t1"
rows = [
  { r = 1, id = "c4", cells = { c0 = "4", c1 = "51 / 257" } },
  { r = 2, id = "c8", cells = { c0 = "8", c1 = "89 / 447" } },
]
[table.columns]
c0 = [{ id = "con", kind = "setting" }]
c1 = [{ id = "out", unit = "tokens/s" }, { id = "total", unit = "tokens/s" }]
[[table.check]]
column = "total"
is = "row.out * 5"
"""
    )
    assert ledger.claims["t3.c8.total"].place == "results/t1.r2.c1#2"
    assert ledger.claims["t3.c8.total"].relations[0].formula.names == ("t3.c8.out",)


@pytest.mark.parametrize(
    "change",
    [
        ('column = "total"', 'column = "totl"'),
        ('c1 = "51 / 257"', 'c1 = "51 / 257 / 9"'),
        ("r = 1", "rr = 1"),
    ],
)
def test_bad_tables_are_named(change):
    text = HEAD + (
        '[[table]]\nid = "t"\nat = "s/t1"\nrows = [{ r = 1, id = "a", cells = { c1 = "51 / 257" } }]\n'
        '[table.columns]\nc1 = [{ id = "out" }, { id = "total" }]\n[[table.check]]\ncolumn = "total"\nis = "row.out * 5"\n'  # noqa: E501
    )
    failure(text.replace(*change))


@pytest.mark.parametrize(
    "text",
    ["", "= 1", "[ledger]\nid = 3\ntitle = 'x'", HEAD + "[[section]]\nat = 'x'\nclaims = 3", HEAD + "section = 1", "[other]",  # noqa: E501
     HEAD + "[[section]]\nat = 'x'\nclaims = [{ n = 'one', id = 'a', printed = '1' }]", HEAD + "[[table]]\nid = 't'\nat = 'x'\ncolumns = 3\nrows = [{r=1,id='a',cells={c1='2'}}]"],  # noqa: E501
)  # fmt: skip
def test_malformed_files_are_named(text):
    failure(text)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(LedgerError, match="cannot be read"):
        read_ledger(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(LedgerError, match="cannot be read"):
        read_ledger(tmp_path / "latin.toml")


@given(st.text(max_size=60), st.text(max_size=20))
def test_any_text_in_a_claim_is_read_or_named(printed, formula):
    quoted = [text.replace("\\", "").replace('"', "").replace("\n", " ") for text in (printed, formula)]
    try:
        read_ledger_text(ledger_text(f'id = "a", printed = "{quoted[0]}", from = ["{quoted[1]}"]'))
    except K3Error as error:
        assert error.exit_code == 2


@pytest.mark.parametrize("key", ["id", "primary"])
@pytest.mark.parametrize("value", ["../../x", "/etc/passwd", ".hidden", "a/b"])
def test_the_id_of_a_ledger_cannot_lead_out_of_its_folder(key, value):
    text = ledger_text('id = "a", printed = "5"').replace(
        'id = "t"', f'{key} = "{value}"\nid = "t"' if key != "id" else f'id = "{value}"', 1
    )
    with pytest.raises(LedgerError, match="is no file name"):
        read_ledger_text(text)
