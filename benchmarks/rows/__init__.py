"""What is measured: one file a row of the page, each with `measure`, and `child` where contenders are compared."""
