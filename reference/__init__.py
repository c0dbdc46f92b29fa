"""The reference runtime. This file owns one thing: which optional packages of its libraries are not looked for.

The HTTP library loads a whole command line with colours if it can, and looks for `sniffio` at every lock that it makes: a
search of the path that fails each time. Both cost more than all that this program does with the library in a turn.
"""

import importlib.util
import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
if importlib.util.find_spec("sniffio") is None:
    sys.modules["sniffio"] = None  # type: ignore[assignment]
