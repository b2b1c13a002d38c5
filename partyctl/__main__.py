"""`python -m partyctl`: the same as the command `partyctl`."""

import sys

from partyctl.cli import main

if __name__ == "__main__":
    sys.exit(main())
