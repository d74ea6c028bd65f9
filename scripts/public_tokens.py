"""Collects words of public sources that tests compare with: `python scripts/public_tokens.py TREE... > tokens.txt`.

It does not use traceanalyzer/rewrite/public/: words are identifiers in the text of headers, Python files and YAML
(`torch/include`, `torchgen`, torch's table from CUDA to HIP, Python's library), and in the symbols of shared libraries
(libtorch_cuda.so, for the kernels), not names that a program asked for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/|^\s*#(?!define|include|if).*?$", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,79}")
_GENERATED = re.compile(r"[0-9a-f]{8}|^_Z")
_SUFFIXES = {".h", ".hpp", ".cuh", ".cu", ".inl", ".py", ".pyi", ".yaml"}


def main(trees: list[Path]) -> None:
    """Print the words of all trees."""
    words: set[str] = set()
    for tree in trees:
        if tree.suffix == ".so":
            words.update(word for word in _WORD.findall(symbols(tree)) if not _GENERATED.search(word))
        for path in [tree] if tree.is_file() else tree.rglob("*"):
            if path.suffix in _SUFFIXES:
                words.update(_WORD.findall(_COMMENTS.sub(" ", path.read_text(errors="replace"))))
                words.update(part for name in path.parts for part in _WORD.findall(name))
    sys.stdout.write("\n".join(sorted(words)) + "\n")


def symbols(library: Path) -> str:
    """The symbols that a shared library defines or uses, demangled."""
    tool = shutil.which("nm")
    assert tool, "nm is missing: it is in binutils"
    return subprocess.run([tool, "-DC", library], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
