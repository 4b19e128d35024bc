"""Invoices."""

# ruff: noqa: PT009 (unittest is all that the tests need)

from __future__ import annotations

import unittest

from invoices.invoice import Invoice, Line, read_lines


class Totals(unittest.TestCase):
    def test_lines_tax_and_what_is_to_be_paid(self) -> None:
        invoice = Invoice((Line("Paper", 4, 450), Line("Desk lamp", 1, 3200)), tax_rate="20")
        self.assertEqual((invoice.net, invoice.tax, invoice.gross), (5000, 1000, 6000))


class ReadSpreadsheets(unittest.TestCase):
    def test_lines_with_windows_line_endings(self) -> None:
        lines = read_lines(["description,quantity,price\r\n", "Paper,4,4.50\r\n"])
        self.assertEqual(lines, (Line("Paper", 4, 450),))
