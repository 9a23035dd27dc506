"""Small ledgers for the tests."""

HEAD = '[ledger]\nid = "t"\ntitle = "T"\n'


def ledger_text(*claims: str, extra: str = "", head: str = HEAD) -> str:
    """A ledger with one section `top`; each claim is the inside of an inline table, `n` is added."""
    rows = "\n".join(f"  {{ n = {n}, {claim} }}," for n, claim in enumerate(claims, start=1))
    return f'{head}{extra}\n[[section]]\nat = "top"\nclaims = [\n{rows}\n]\n'
