"""Near-duplicate texts: CPU time of gpuyard against the datasketch library on the same documents; tokens of texts.

python bench/text.py --datasketch PYTHON     PYTHON is an interpreter that has datasketch (pip install datasketch)
python bench/text.py                         gpuyard alone
python bench/text.py --tokens                tokens of the documents instead: plain bytes and a BPE of 8,192

The documents are the docstrings of installed packages and copies of them in which one word in 500 to 20 is
changed. Both take shingles of five words in lower case, 128 permutations and Jaccard 0.8, and keep the first of
texts that are alike. The truth for recall is the exact similarity of every copy to its original.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import random
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

PACKAGES = ("numpy", "scipy", "sklearn", "polars")
THRESHOLD, PERMUTATIONS, WIDTH = 0.8, 128, 5
CHANGES = (0.002, 0.005, 0.01, 0.05)


def docstrings() -> list[str]:
    """Documentation of at least 400 characters of some packages, in order."""
    found = set()
    for package in PACKAGES:
        top = importlib.import_module(package)
        names = (
            one.name
            for one in pkgutil.walk_packages(top.__path__, f"{package}.", onerror=lambda _: None)
        )
        for name in (
            package,
            *(
                name
                for name in names
                if not re.search(r"test|f2py|_build|setup|conftest|__main__", name)
            ),
        ):
            try:
                module = importlib.import_module(name)
            except Exception:  # a module of another platform
                continue
            for value in list(vars(module).values()):
                text = getattr(value, "__doc__", None)
                if isinstance(text, str) and len(text) >= 400:
                    found.add(text)
    return sorted(found)


def changed(text: str, part: float, draw: random.Random) -> str:
    """The text with that part of its words replaced."""
    return " ".join(
        f"w{draw.randrange(10**6)}" if draw.random() < part else word for word in text.split()
    )


def corpus(copies: int) -> tuple[list[str], list[int]]:
    """Originals followed by copies, and the original of every text (itself for an original)."""
    originals, draw = docstrings(), random.Random(0)
    texts, origin = list(originals), list(range(len(originals)))
    for number in range(copies * len(originals)):
        place = number % len(originals)
        texts.append(changed(originals[place], draw.choice(CHANGES), draw))
        origin.append(place)
    return texts, origin


def shingles(text: str) -> set[str]:
    """Runs of five words."""
    words = re.findall(r"\w+", text.lower())
    return (
        {" ".join(words[at : at + WIDTH]) for at in range(max(len(words) - WIDTH + 1, 1))}
        if words
        else set()
    )


def by_datasketch(texts: list[str]) -> list[int]:
    """The numbers of the texts that are dropped."""
    from datasketch import MinHash, MinHashLSH

    index, dropped = MinHashLSH(threshold=THRESHOLD, num_perm=PERMUTATIONS), []
    sketches = {}
    for number, text in enumerate(texts):
        sketch = MinHash(num_perm=PERMUTATIONS)
        sketch.update_batch([shingle.encode() for shingle in shingles(text)])
        if any(sketch.jaccard(sketches[other]) >= THRESHOLD for other in index.query(sketch)):
            dropped.append(number)
        else:
            index.insert(number, sketch)
            sketches[number] = sketch
    return dropped


def by_gpuyard(texts: list[str]) -> list[int]:
    """The numbers of the texts that are dropped."""
    import numpy as np

    from gpuyard.datasets.text.minhash import near_duplicates

    return np.flatnonzero(
        ~near_duplicates(texts, threshold_ratio=THRESHOLD, permutations=PERMUTATIONS).unique
    ).tolist()


ENGINES = {"gpuyard": by_gpuyard, "datasketch": by_datasketch}


def measured(engine: str, file: Path) -> None:
    """Prints CPU seconds and what was dropped, as JSON; compilation is not counted, as it is kept on disk."""
    texts = json.loads(file.read_text(encoding="utf-8"))
    ENGINES[engine](texts[:50])
    start = time.process_time()
    dropped = ENGINES[engine](texts)
    print(json.dumps({"cpu_s": time.process_time() - start, "dropped": dropped}))


def tokens(copies: int) -> None:
    """Prints the CPU time of encoding: bytes by their table and by the tokenizers library, and a trained BPE by it."""
    from gpuyard.datasets.text.tokenizer import byte_coder, train_coder

    texts, _ = corpus(copies)
    size = sum(len(text.encode()) for text in texts)
    plain = byte_coder()
    coders = {
        "bytes by their table": plain,
        "bytes by tokenizers": replace(plain, byte_tokens=None),
        "BPE of 8,192 by tokenizers": train_coder([texts[:2000]], 8192),
    }
    taken = {}
    for name, coder in coders.items():
        start = time.process_time()
        for first in range(0, len(texts), 256):
            coder.encode(texts[first : first + 256])
        taken[name] = time.process_time() - start
        print(f"{name:<27} {taken[name]:8.2f} CPU s  {size / 1e6 / taken[name]:7.1f} MB/s")
    ratio = taken["bytes by tokenizers"] / taken["bytes by their table"]
    print(f"{size / 1e6:.1f} MB; the library takes {ratio:.0f} times the CPU time of the table")


def main() -> None:
    """Runs the engines and compares them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--datasketch", metavar="PYTHON", help="an interpreter with datasketch")
    parser.add_argument("--copies", type=int, default=3, help="copies of every docstring")
    parser.add_argument("--tokens", action="store_true", help="time the tokenizers instead")
    parser.add_argument("--engine", choices=sorted(ENGINES), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine:
        measured(arguments.engine, arguments.file)
        return
    if arguments.tokens:
        tokens(arguments.copies)
        return
    texts, origin = corpus(arguments.copies)
    originals = origin.index(0, 1)
    sets = {number: shingles(texts[number]) for number in range(len(texts))}
    near = [
        number
        for number in range(originals, len(texts))
        if len(sets[number] & sets[origin[number]])
        >= THRESHOLD * len(sets[number] | sets[origin[number]])
    ]
    size = sum(len(text.encode()) for text in texts)
    print(
        f"{len(texts):,} texts, {size / 1e6:.1f} MB, {len(near):,} copies at or above {THRESHOLD}"
    )
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.json"
        file.write_text(json.dumps(texts), encoding="utf-8")
        interpreters = {"gpuyard": sys.executable} | (
            {"datasketch": arguments.datasketch} if arguments.datasketch else {}
        )
        for engine, python in interpreters.items():
            words = [python, __file__, "--engine", engine, "--file", str(file)]
            done = json.loads(
                subprocess.run(words, check=True, capture_output=True, text=True).stdout
            )
            dropped = set(done["dropped"])
            results[engine] = done["cpu_s"]
            recall = sum(number in dropped for number in near) / len(near)
            print(
                f"{engine:<11} {done['cpu_s']:8.2f} CPU s  {size / 1e6 / done['cpu_s']:7.1f} MB/s  "
                f"dropped {len(dropped):,}, recall {recall:.3f}"
            )
    if len(results) == 2:
        print(
            f"datasketch takes {results['datasketch'] / results['gpuyard']:.0f} times the CPU time of gpuyard"
        )


if __name__ == "__main__":
    main()
