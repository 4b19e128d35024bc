"""Says whether an invoice number is valid: `python3 check.py 2026-0417-1`."""

from __future__ import annotations

import re
import sys


def verdict(number: str) -> str:
    """`valid`, or what is wrong."""
    found = re.fullmatch(r"(\d{4}-\d{4})-(\d)", number)
    if found is None:
        return "not of the form YYYY-NNNN-C"
    expected = sum(int(digit) for digit in found[1] if digit.isdigit()) % 7
    return "valid" if int(found[2]) == expected else f"the last digit must be {expected}"


if __name__ == "__main__":
    print(verdict(sys.argv[1]))
