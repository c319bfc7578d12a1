"""`python -m mgpp`."""

import sys

from mgpp.cli import main

if __name__ == "__main__":
    sys.exit(main())
