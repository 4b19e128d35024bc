"""Counts lines and words: python count.py FILE."""

import sys


def main():
    """Count."""
    text = open(sys.argv[1], encoding="utf-8").read()
    print("lines", len(text.splitlines()))
    print("words", len(text.split()))


if __name__ == "__main__":
    main()
