"""The Python examples of a Markdown file, in order; as a script, prints the README's first one."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def examples(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), flags=re.DOTALL | re.MULTILINE)


if __name__ == "__main__":
    print(examples(ROOT / "README.md")[0])
