"""Amounts."""

# ruff: noqa: PT009 (unittest is all that the tests need)

from __future__ import annotations

import unittest

from invoices.money import percent, show, to_cents


class ReadAmounts(unittest.TestCase):
    def test_whole_amounts(self) -> None:
        self.assertEqual(to_cents("12"), 1200)
        self.assertEqual(to_cents("12.50"), 1250)

    def test_every_cent_counts(self) -> None:
        self.assertEqual(to_cents("19.99"), 1999)


class Taxes(unittest.TestCase):
    def test_half_a_cent_goes_up(self) -> None:
        self.assertEqual(percent(250, "19"), 48)


class ShowAmounts(unittest.TestCase):
    def test_thousands_and_cents(self) -> None:
        self.assertEqual(show(123450), "1,234.50 EUR")
        self.assertEqual(show(-5), "-0.05 EUR")
