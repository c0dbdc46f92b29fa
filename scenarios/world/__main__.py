"""Owns the way in from the command line: `python -m scenarios.world [--address-file FILE]`."""

import sys

from scenarios.world.service import main

sys.exit(main())
