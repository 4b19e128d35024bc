"""What the harness costs, beside a floor: `make bench` prints it, README.md is written from it."""
