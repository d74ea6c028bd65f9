"""Makes `benchmarks`, which is not part of the package, importable from anywhere."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
