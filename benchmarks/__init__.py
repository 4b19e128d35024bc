"""Measure what the harness costs beside a floor: `make bench` prints it and writes README.md."""
