"""Invoices from a spreadsheet: reads the lines, adds the tax, prints the total."""
