"""`audit check`: what it recognises, finds and falsely accuses.

Without a folder: generated posts with known relations, slips planted at a known rate; recall and precision
per kind. With a folder: every document in it as it is, and with one number of each relation that holds
changed; how often that is seen. Seconds are CPU time.

python benchmarks/bench_check.py [DIR] [--documents 400] [--rate 0.2] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path

from _check_corpus import Post, posts
from _check_mutations import Mutant, mutants, tally

from k3repro.check import SUFFIXES, Checked, check_document, read_bytes, read_document


def generated(count: int, seed: int, rate: float) -> None:
    found, planted, false = Counter[str](), Counter[str](), Counter[str]()
    relations, words, start = 0, 0, time.process_time()
    for post in posts(count, seed, rate):
        checked = check_document(read_bytes(post.text.encode(), post.name, post.suffix))
        relations += len(checked.relations)
        words += len(post.text.split())
        hit, wrong = _score(post, checked)
        found.update(hit)
        false.update(wrong)
        planted.update(kind for kind, _ in post.planted)
    spent = time.process_time() - start
    _long(seed, rate)
    print(f"{count} generated documents, {words:,} words, {relations} relations, {spent:.1f} s of CPU time")
    print(f"{'kind':18} {'planted':>8} {'found':>6} recall")
    for kind in sorted(planted):
        print(f"{kind:18} {planted[kind]:8} {found[kind]:6} {found[kind] / planted[kind]:.0%}")
    hits, all_false = sum(found.values()), sum(false.values())
    print(f"recall {hits}/{sum(planted.values())} = {hits / max(1, sum(planted.values())):.1%}")
    print(
        f"precision {hits}/{hits + all_false} = "
        f"{hits / max(1, hits + all_false):.1%}; false alarms: {dict(false) or 'none'}"
    )


def _long(seed: int, rate: float, words: int = 10_000) -> None:
    """One post of so many words, put together from generated ones, and its CPU time."""
    parts = []
    for post in posts(words // 100, seed, rate):
        parts += [post.text] if post.suffix == ".md" else []
        if sum(len(part.split()) for part in parts) >= words:
            break
    text = "\n\n".join(parts)
    start = time.process_time()
    checked = check_document(read_bytes(text.encode(), "long.md", ".md"))
    spent = time.process_time() - start
    size = f"{len(text.split()):,} words, {len(checked.relations)} relations"
    print(f"one post of {size}: {spent:.2f} s of CPU time")


def _score(post: Post, checked: Checked) -> tuple[list[str], list[str]]:
    """Kinds of the planted slips that were found, and detectors of findings that no slip explains."""
    open_slips, false = list(post.planted), []
    findings = [(r, {n.text.lstrip("-−+≈~") for n in r.printed}) for r in checked.findings]
    hit = [(kind, token) for kind, token in open_slips if any(_says(texts, token) for _, texts in findings)]
    for relation, texts in findings:
        if not any(_says(texts, token) for _, token in open_slips):
            false.append(relation.detector)
    return [kind for kind, _ in hit], false


def _says(texts: set[str], token: str) -> bool:
    bare = token.lstrip("-−+≈~").split()[0]
    return any(text == bare or text.split()[0] == bare or text.startswith(f"{bare} ") for text in texts)


def folder(path: Path, seed: int) -> None:
    source, every = random.Random(seed), list[Mutant]()
    files = [p for p in sorted(path.rglob("*")) if p.suffix.lower() in SUFFIXES and p.is_file()]
    counts, differ = Counter[str](), Counter[str]()
    for file in files:
        start = time.process_time()
        checked = check_document(read_document(file))
        spent = time.process_time() - start
        counts.update(r.detector for r in checked.relations)
        differ.update(r.detector for r in checked.findings)
        every += mutants(checked, source)
        found = f"{len(checked.relations):4} relations {len(checked.findings):3} differ"
        print(f"{file.name[:60]:60} {found} {spent:6.2f} s")
    print(f"{len(files)} documents, {sum(counts.values())} relations, {sum(differ.values())} differ")
    for title, by in (("detector", "detector"), ("change", "kind")):
        print(f"{title:18} caught")
        for name, (caught, total) in tally(every, by).items():
            print(f"{name:18} {caught}/{total} = {caught / total:.0%}")
    caught = sum(m.caught for m in every)
    print(f"changed numbers noticed: {caught}/{len(every)} = {caught / max(1, len(every)):.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.folder:
        folder(given.folder, given.seed)
    else:
        generated(given.documents, given.seed, given.rate)


if __name__ == "__main__":
    main()
